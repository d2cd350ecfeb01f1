"""Output where the locale's encoding is not UTF-8: tables escape what it lacks, and what programs read is UTF-8; never a traceback."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from tests.cli.conftest import A, Terminal
from topicpolicies import Client
from topicpolicies_server.cli.exits import writing

NAME = f"persistent://{A}/caf\u00e9-\u65e5\u672c-\U0001f600"
ESCAPED = f"persistent://{A}/caf\u00e9-\\u65e5\\u672c-\\U0001f600"


@pytest.mark.parametrize(("for_programs", "written"), [(False, ESCAPED.encode("latin-1")), (True, NAME.encode())], ids=["table", "json"])
def test_a_character_that_the_locale_lacks_is_escaped_in_tables_and_utf_8_in_json(
    for_programs: bool, written: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="latin-1", write_through=True))
    with writing(json=for_programs, utf_8=for_programs):
        sys.stdout.write(NAME)
    assert printed.getvalue() == written


@pytest.mark.slow
def test_commands_end_as_anywhere_where_the_locale_is_latin_1(recorded: Terminal) -> None:
    with Client(recorded.address) as client:
        client.update(NAME, max_producer_per_topic=5)

    def told(*arguments: str) -> bytes:
        environment = {**recorded.environment, "PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "latin-1"}
        command = [sys.executable, "-m", "topicpolicies_server", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stderr.count(b"Traceback")) == (0, 0), done.stderr
        return done.stdout

    assert ESCAPED in told("list", A).decode("latin-1")
    assert json.loads(told("list", A, "--output", "json"))["documents"][0]["topic"] == NAME
    assert NAME in told("export", A).decode()
