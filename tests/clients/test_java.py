"""The Java client: its own tests, against a running server, and its example."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests import java_build
from tests.client.certificates import Authority

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
