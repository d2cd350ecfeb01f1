"""The Rust client, which was made from the published pages alone: its own tests, and its lint."""

from __future__ import annotations

import asyncio
import re
import shutil

import pytest

from tests.clients.toolchains import RUST, cargo, run
from tests.promises.server_process import ServerProcess

# One process builds it, for all tests that need it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("rust")]


async def test_its_own_tests_pass(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPICPOLICIES_ADDRESS", server.address)
    said = await asyncio.to_thread(run, [cargo(), "test", "--locked", "--offline"], RUST, seconds=800)
    assert len(re.findall(r"^test .* \.\.\. ok$", said, re.MULTILINE)) > 10
    assert not re.search(r" [1-9]\d* ignored", said)


def test_tests_that_need_a_server_fail_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOPICPOLICIES_ADDRESS", raising=False)
    monkeypatch.setenv("RUST_BACKTRACE", "0")
    program = cargo()
    with pytest.raises(AssertionError, match="set TOPICPOLICIES_ADDRESS"):
        run([program, "test", "--locked", "--offline", "--test", "server"], RUST, seconds=800)


def test_it_is_formatted_and_linted() -> None:
    program = cargo()
    for component in ("fmt", "clippy"):
        if shutil.which(f"cargo-{component}") is None:
            pytest.fail(f"cargo {component} is missing: install it with `rustup component add rustfmt clippy`")
    run([program, "fmt", "--check"], RUST)
    run([program, "clippy", "--locked", "--offline", "--all-targets", "--", "-D", "warnings"], RUST, seconds=800)
