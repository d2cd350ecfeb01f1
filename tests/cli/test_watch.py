"""The watch command: lines for people and for programs, a file to go on from, and an end with Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import A, Background, Terminal
from tests.client.fault_service import Fault
from topicpolicies import ResumeToken
from topicpolicies_server.cli.watch import sort_targets


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def kinds(told: list[dict[str, Any]]) -> list[str]:
    return [next(iter(each)) for each in told]


def test_each_line_is_one_json_document(terminal: Terminal, background: Background) -> None:
    background.write(A, "t", 5)
    background.write(A, "gone", 1)
    background.write(A, "gone", None)
    result = terminal.run("watch", A, "--once", "--output", "json")
    assert result.exit_code == 0
    told = documents(result.stdout)
    assert kinds(told) == ["change", "bookmark"]
    assert told[0]["change"] == {
        "namespace": A,
        "topic": f"persistent://{A}/t",
        "scope": "SCOPE_LOCAL",
        "exists": True,
        "policies": {"max_producer_per_topic": 5},
        "version": "000001",
        "partition": 1,
        "position": "000001",
        "origin": {"actor": "somebody"},
        "snapshot": True,
    }
    assert told[1]["bookmark"]["kind"] == "BOOKMARK_KIND_SYNCED"


def test_people_read_what_there_is_and_what_broke(terminal: Terminal, background: Background) -> None:
    background.write(A, "t", 5)
    background.service.faults.append(Fault(after=1))
    lines = terminal.run("watch", A, "--once").stdout.splitlines()
    assert [line.split("  ", 1)[1] for line in lines] == [
        f"= persistent://{A}/t LOCAL 000001 by somebody  max_producer_per_topic=5",
        lines[1].split("  ", 1)[1],
        f"# The namespace {A} begins again with a snapshot: the watch was interrupted before the snapshot was complete.",
        f"= persistent://{A}/t LOCAL 000001 by somebody  max_producer_per_topic=5",
        f"# {A} is complete; changes follow",
    ]
    assert "# interrupted, again in " in lines[1]
    assert background.service.met["WatchPolicies"] == 1


def test_a_watch_goes_on_from_its_file(terminal: Terminal, background: Background, tmp_path: Path) -> None:
    place = tmp_path / "token"
    background.write(A, "t", 1)
    arguments = ("watch", A, "--once", "--output", "json", "--resume-file", str(place))
    assert kinds(documents(terminal.run(*arguments).stdout)) == ["change", "bookmark"]
    assert ResumeToken.loads(place.read_text()).namespaces[A].positions
    assert kinds(documents(terminal.run(*arguments).stdout)) == ["bookmark"]
    background.write(A, "t", 2)
    told = documents(terminal.run(*arguments).stdout)
    assert kinds(told) == ["change", "bookmark"]
    assert told[0]["change"]["snapshot"] is False
    assert background.service.model.resumed == 2
    assert [path.name for path in tmp_path.iterdir()] == ["token"], "nothing is left behind"


def test_a_token_that_is_too_old_begins_anew_and_says_so(terminal: Terminal, background: Background, tmp_path: Path) -> None:
    place = tmp_path / "token"
    background.write(A, "t", 1)
    arguments = ("watch", A, "--once", "--output", "json", "--resume-file", str(place))
    terminal.run(*arguments)
    background.write(A, "u", 2)
    background.service.model.forget(A)
    told = documents(terminal.run(*arguments).stdout)
    assert kinds(told) == ["interrupted", "restarted", "change", "change", "bookmark"]
    assert told[0]["interrupted"]["error"]["code"] == "OUT_OF_RANGE"
    assert background.service.met["refused"] == 1


def test_something_else_in_the_file_is_refused_and_kept(terminal: Terminal, tmp_path: Path) -> None:
    place = tmp_path / "token"
    place.write_text("precious")
    code, error = terminal.failing("watch", A, "--once", "--resume-file", str(place))
    assert (code, error["reason"]) == (2, "MALFORMED_TOKEN")
    assert place.read_text() == "precious"


def test_a_watch_of_no_server_ends_when_patience_does(terminal: Terminal) -> None:
    result = terminal.run("watch", A, "--server", "127.0.0.1:1", "--timeout", "0.3")
    assert result.exit_code == 5
    assert "No server can be reached at 127.0.0.1:1" in result.stderr
    assert "interrupted" in result.stdout


def test_targets_are_topics_or_namespaces() -> None:
    targets = ["public/a", "public/a/t", "persistent://public/a/t", "non-persistent://public/a/t", "odd"]
    assert sort_targets(targets) == ([*targets[1:]], ["public/a"])


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("output", ["json", "table"])
def test_changes_come_as_they_happen_until_it_is_interrupted(
    terminal: Terminal, background: Background, tmp_path: Path, output: str
) -> None:
    place = tmp_path / "token"
    command = [sys.executable, "-m", "topicpolicies_server.cli", "watch", A, "--output", output, "--resume-file", str(place)]
    environment = {**terminal.environment, "PYTHONPATH": ":".join(sys.path)}
    # Where the tests themselves run in the background of a shell, SIGINT is ignored, and children would inherit that.
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_interruptible,  # noqa: PLW1509
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        give_up = time.monotonic() + 20
        while not place.exists() and time.monotonic() < give_up:
            time.sleep(0.01)
        assert A in ResumeToken.loads(place.read_text()).namespaces, "the place is kept before the end, too"
        for value in (5, 6, None):
            background.write(A, "t", value)
            lines.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    assert (process.returncode, rest, errors) == (0, "", "")
    if output == "json":
        assert kinds([json.loads(line) for line in lines]) == ["bookmark", "change", "change", "change"]
    else:
        topic = f"persistent://{A}/t LOCAL"
        assert [line.rstrip().split("  ", 1)[1] for line in lines] == [
            f"# {A} is complete; changes follow",
            f"~ {topic} 000001 by somebody  max_producer_per_topic=5",
            f"~ {topic} 000002 by somebody  max_producer_per_topic: 5 -> 6",
            f"- {topic} 000003 by somebody  deleted",
        ]
    assert max(ResumeToken.loads(place.read_text()).namespaces[A].positions) == "000003"
