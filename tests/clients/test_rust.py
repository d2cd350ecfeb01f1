"""The Rust client, which was written from the published pages alone: its own tests, and its lint, which is part of each build here."""

from __future__ import annotations

import asyncio
import re
import shutil

import pytest

from tests.clients.toolchains import RUST, cargo, run
from tests.promises.server_process import ServerProcess

pytestmark = [pytest.mark.evidence, pytest.mark.timeout(900)]


async def test_the_rust_clients_own_tests_pass(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPICPOLICIES_ADDRESS", server.address)
    output = await asyncio.to_thread(run, [cargo(), "test", "--locked", "--offline"], RUST, seconds=800)
    assert len(re.findall(r"^test .* \.\.\. ok$", output, re.MULTILINE)) > 10
    assert not re.search(r" [1-9]\d* ignored", output)


def test_the_rust_client_is_formatted() -> None:
    program = cargo()
    if shutil.which("cargo-fmt") is None:
        pytest.fail("cargo fmt is missing: install it with `rustup component add rustfmt clippy`")
    run([program, "fmt", "--check"], RUST)


def test_all_targets_of_the_rust_client_pass_the_lint() -> None:
    run([cargo(), "test", "--locked", "--offline", "--no-run", "--all-targets"], RUST, seconds=800)
