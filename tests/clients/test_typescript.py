"""The TypeScript client: its own tests, its lint, and its example."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from proto import tools
from tests.client.certificates import Authority
from tests.clients.toolchains import run, typescript_program
from topicpolicies_server.config import EmbeddedLogConfig, ServerConfig, TlsConfig, parse_address
from topicpolicies_server.rpc.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_typescript_clients_own_tests_pass() -> None:
    typescript_program("")
    files = sorted(str(path) for path in (tools.TYPESCRIPT / "dist" / "test").glob("*.test.js"))
    output = run([tools.node(), "--test", "--test-reporter=tap", "--test-timeout=120000", *files], tools.TYPESCRIPT)
    counts = {name: int(count) for name, count in re.findall(r"^# (tests|pass|fail|skipped) (\d+)$", output, re.MULTILINE)}
    assert counts["pass"] == counts["tests"] > 180
    assert counts["fail"] == counts["skipped"] == 0


def test_the_lint_of_the_typescript_client_finds_nothing() -> None:
    run([tools.node(), str(tools.node_modules() / "eslint" / "bin" / "eslint.js"), "."], tools.TYPESCRIPT)


async def test_the_typescript_client_uses_mutual_tls_and_fails_if_either_side_does_not_trust_the_other(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    own, theirs = authority.identity("known"), authority.identity("server", "policies.test")
    tls = TlsConfig(certificate_file=theirs.certificate, key_file=theirs.key, client_ca_file=authority.certificate)
    config = ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), tls=tls)
    command = await asyncio.to_thread(typescript_program, "test/secured.js")
    async with Server(config) as server:
        files = [str(authority.certificate), str(own.certificate), str(own.key)]
        output = await asyncio.to_thread(run, [*command, server.address, *files], tools.TYPESCRIPT, seconds=60)
    assert output.splitlines() == ["version 0", "refused", "refused"]


def test_the_lock_file_pins_every_package_by_its_hash_and_names_no_registry() -> None:
    lock = json.loads((tools.TYPESCRIPT / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert len(packages) > 50
    assert {name for name, package in packages.items() if "integrity" not in package} == set()
    assert {name for name, package in packages.items() if "resolved" in package} == set()
