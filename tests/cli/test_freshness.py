"""Commands report on standard error since when the server can't confirm its answers; their standard output does not change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.conftest import TOPIC, A, Terminal
from tests.cli.faults import Proxy
from tests.cli.real_server import running
from topicpolicies_server.config import EmbeddedLogConfig

SINCE = "2026-03-01T12:00:00.250+00:00"
CLUSTER = f'cluster = "us"\n[broker]\n[namespaces."{A}"]\n'


@pytest.fixture
def terminal(tmp_path: Path, proxy: Proxy) -> Iterator[Terminal]:
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    log = EmbeddedLogConfig(path=tmp_path / "policies.db", cluster_file=tmp_path / "cluster.toml")
    with running(tmp_path, proxy=proxy, log=log) as address:
        made = Terminal(address)
        made.write(A, "orders", 5)
        yield made


READS = [
    ["get", TOPIC],
    ["get", TOPIC, "--scope", "both"],
    ["list", A],
    ["list", A, "--scope", "global"],
    ["effective", TOPIC],
    ["history", TOPIC],
    ["history", A, "--limit", "1"],
    ["diff", TOPIC, "now"],
]


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_an_unconfirmed_answer_is_reported_on_standard_error_only(terminal: Terminal, proxy: Proxy, command: list[str]) -> None:
    shown, programs = terminal.run(*command), terminal.run(*command, "-o", "json")
    assert "change log" not in shown.stderr and "unconfirmed" not in programs.stderr
    proxy.unconfirmed_since = SINCE
    unconfirmed = terminal.run(*command)
    local = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC).astimezone().isoformat(sep=" ", timespec="milliseconds")
    (line,) = [line for line in unconfirmed.stderr.splitlines() if "change log" in line]
    assert line == f"The server has not reached the change log since {local}: there may be newer changes than these."
    assert (unconfirmed.exit_code, unconfirmed.stdout) == (shown.exit_code, shown.stdout)
    for_programs = terminal.run(*command, "-o", "json")
    assert [json.loads(line) for line in for_programs.stderr.splitlines()] == [{"unconfirmed_since": SINCE}]
    assert (for_programs.exit_code, for_programs.stdout) == (programs.exit_code, programs.stdout)
