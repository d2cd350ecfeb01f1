"""The Rust client, which was made from the published pages alone: its own tests, and its lint."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.toolchains import run
from tests.promises.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_RUST = Path(__file__).parents[2] / "clients" / "rust"


def _cargo() -> str:
    """Cargo, with all crates at hand."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.fail("cargo is missing: install Rust 1.88 or later, with rustup")
    fetched = subprocess.run(
        [cargo, "fetch"], cwd=_RUST, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300
    )
    if fetched.returncode != 0:
        pytest.fail(f"crates are missing: run `cargo fetch` in clients/rust, where crates can be fetched\n{fetched.stderr[-2000:]}")
    return cargo


async def test_its_own_tests_pass(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPICPOLICIES_ADDRESS", server.address)
    said = await asyncio.to_thread(run, [_cargo(), "test", "--locked", "--offline"], _RUST, seconds=800)
    assert len(re.findall(r"^test .* \.\.\. ok$", said, re.MULTILINE)) > 10
    assert not re.search(r" [1-9]\d* ignored", said)


def test_tests_that_need_a_server_fail_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOPICPOLICIES_ADDRESS", raising=False)
    monkeypatch.setenv("RUST_BACKTRACE", "0")
    with pytest.raises(AssertionError, match="set TOPICPOLICIES_ADDRESS"):
        run([_cargo(), "test", "--locked", "--offline", "--test", "server"], _RUST, seconds=800)


def test_it_is_formatted_and_linted() -> None:
    cargo = _cargo()
    for component in ("fmt", "clippy"):
        if shutil.which(f"cargo-{component}") is None:
            pytest.fail(f"cargo {component} is missing: install it with `rustup component add rustfmt clippy`")
    run([cargo, "fmt", "--check"], _RUST)
    run([cargo, "clippy", "--locked", "--offline", "--all-targets", "--", "-D", "warnings"], _RUST, seconds=800)
