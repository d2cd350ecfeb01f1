"""The health command: which server it asks, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Terminal
from tests.ports import free_port


def test_of_several_addresses_the_first_that_answers_is_asked(recorded: Terminal) -> None:
    unused = f"127.0.0.1:{free_port()}"
    for server in (f"ipv4:{unused},{recorded.address}", f"ipv4:{recorded.address},{unused}"):
        result = recorded.run("--server", server, "health")
        assert (result.exit_code, result.stdout) == (0, "SERVING\n"), result.output
    code, error = recorded.failing("--server", f"ipv4:{unused},{unused}", "health")
    assert (code, error["code"]) == (5, "UNAVAILABLE") and "refused" in error["message"]


@pytest.mark.parametrize(
    "arguments",
    [("--server", "localhost:99999"), ("--tls-ca", "{missing}"), ("--tls-certificate", "{missing}"), ("--token-file", "{missing}")],
)
def test_health_refuses_the_same_wrong_options_as_other_commands(recorded: Terminal, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    given = [argument.format(missing=tmp_path / "missing") for argument in arguments]
    errors = [recorded.failing(*given, command) for command in ("info", "health")]
    assert errors[0] == errors[1] and errors[0][0] == 2
