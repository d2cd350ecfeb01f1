"""The Java client: its own tests, against a running server, and its example."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import java_build
from tests.client.certificates import Authority
from tests.clients.toolchains import java_program
from tests.promises.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_ROOT = Path(__file__).parents[2]
_COUNT = re.compile(r"Tests run: (\d+), Failures: 0, Errors: 0, Skipped: 0$", re.MULTILINE)


def test_the_java_clients_own_tests_pass(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    authority.identity("server", "localhost", "127.0.0.1")
    authority.identity("client")
    server = "\n".join([sys.executable, "-m", "topicpolicies_server", "serve", "--log-level", "warning"])
    paths = os.pathsep.join([str(_ROOT / "server"), str(_ROOT / "clients/python")])
    environment = {"JAVA_TESTS_SERVER": server, "JAVA_TESTS_CERTIFICATES": str(tmp_path), "PYTHONPATH": paths}
    output = java_build.own_tests("stubs", "client", "broker-plugin", environment=environment)
    assert sum(map(int, _COUNT.findall(output))) > 250, output[-4000:]


def test_the_java_example_runs(tmp_path: Path) -> None:
    server = ServerProcess(["--data", str(tmp_path / "policies.db")], tmp_path / "server.log")
    asyncio.run(server.start())
    try:
        command = java_program("-jar", str(java_build.example_jar()), server.address)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    finally:
        server.kill()
    assert done.returncode == 0, done.stderr
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    assert [line[0] for line in lines] == ["updated", "producers", "cached", "exists"]
    assert lines[1][2] == "6"
    assert lines[2][2] != "nothing"
    assert lines[3][2] == "false"
