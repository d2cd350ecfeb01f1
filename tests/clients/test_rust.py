"""The Rust client, which was written from the published pages alone: its own tests, and its lint, which is part of each build here."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from tests.clients.toolchains import RUST, cargo, run
from tests.promises.server_process import ServerProcess

# All tests that need the Rust client run in one process, which builds it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("rust")]


async def test_the_rust_clients_own_tests_pass(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPICPOLICIES_ADDRESS", server.address)
    output = await asyncio.to_thread(run, [cargo(), "test", "--locked", "--offline"], RUST, seconds=800)
    assert len(re.findall(r"^test .* \.\.\. ok$", output, re.MULTILINE)) > 10
    assert not re.search(r" [1-9]\d* ignored", output)


def test_the_rust_tests_that_need_a_server_fail_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOPICPOLICIES_ADDRESS", raising=False)
    monkeypatch.setenv("RUST_BACKTRACE", "0")
    program = cargo()
    with pytest.raises(AssertionError, match="set TOPICPOLICIES_ADDRESS"):
        run([program, "test", "--locked", "--offline", "--test", "server"], RUST, seconds=800)


def test_the_rust_client_is_formatted() -> None:
    program = cargo()
    if shutil.which("cargo-fmt") is None:
        pytest.fail("cargo fmt is missing: install it with `rustup component add rustfmt clippy`")
    run([program, "fmt", "--check"], RUST)


def test_all_targets_of_the_rust_client_pass_the_lint() -> None:
    run([cargo(), "test", "--locked", "--offline", "--no-run", "--all-targets"], RUST, seconds=800)


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("pub fn planted() -> i32 { return 1; }", "clippy::needless-return"),
        ("fn planted() {}", "dead-code"),
        ("pub fn planted() {}\n#[cfg(test)] mod tests { #[test] fn one() { let _ = 1.clone(); } }", "clippy::clone-on-copy"),
        ("pub fn planted() {}", ""),
    ],
    ids=["lint", "warning", "in a test", "nothing"],
)
def test_a_finding_of_the_lint_fails_the_build(tmp_path: Path, line: str, finding: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "lib.rs").write_text(f"{line}\n")
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "planted"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n')
    command = [cargo(), "test", "--offline", "--no-run", "--all-targets"]
    if finding:
        with pytest.raises(AssertionError, match=finding):
            run(command, tmp_path)
    else:
        run(command, tmp_path)
