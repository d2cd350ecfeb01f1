"""The watch command: lines for people, JSON, the resume file, and its end at Ctrl-C."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import A, Terminal
from tests.cli.faults import Fault, Proxy
from tests.cli.real_server import running
from topicpolicies_server.cli.globals import sort_targets


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [next(kind for kind in each if kind not in ("namespace", "resume_token", "position")) for each in events]


def without_times(lines: list[str]) -> list[str]:
    """Returns the lines without their times."""
    return [line.rstrip().split("  ", 1)[1] for line in lines]


def test_each_line_is_one_json_document(terminal: Terminal) -> None:
    version = terminal.write(A, "t", 5)
    terminal.write(A, "gone", 1)
    terminal.write(A, "gone", None)
    change, bookmark = terminal.lines("watch", A, "--until-synced")
    origin = change["change"].pop("origin")
    assert "policies" not in change["change"].pop("previous")
    change["change"].pop("previous_version", None)
    assert (origin["actor"], origin["actor_standing"]) == ("somebody", "ACTOR_STANDING_UNAUTHENTICATED")
    assert origin["update_mask"] == ["max_producer_per_topic"]
    assert change == {
        "namespace": A,
        "change": {
            "document": {
                "topic": f"persistent://{A}/t",
                "scope": "SCOPE_LOCAL",
                "policies": {"max_producer_per_topic": 5},
                "version": version,
            },
            "snapshot": True,
        },
    }
    assert (bookmark["namespace"], bookmark["bookmark"]["synced"]) == (A, True)
    assert bookmark["resume_token"] and bookmark["bookmark"]["age"].endswith("s")


def test_a_mask_with_an_entry_of_a_map_is_a_list_of_paths(terminal: Terminal) -> None:
    path = "subscription_policies.`a b`.dispatch_rate.dispatch_throttling_rate_in_msg"
    terminal.json("update", f"{A}/t", f"{path}=5", "--reason", "too fast")
    change, _ = terminal.lines("watch", A, "--until-synced")
    assert (change["change"]["origin"]["update_mask"], change["change"]["origin"]["reason"]) == ([path], "too fast")


def test_a_snapshot_that_breaks_off_begins_again(terminal: Terminal, proxy: Proxy) -> None:
    version = terminal.write(A, "t", 5)
    proxy.faults.append(Fault(after=1))
    lines = without_times(terminal.run("watch", A, "--until-synced").stdout.splitlines())
    document = f"= persistent://{A}/t LOCAL {version} by somebody (not authenticated)  max_producer_per_topic=5"
    assert lines == [document, f"# The snapshot of {A} broke off, and begins again.", document, f"# {A} is complete"]
    assert proxy.met["WatchPolicies"] == 1


def test_a_watch_resumes_from_its_file(terminal: Terminal, tmp_path: Path) -> None:
    resume_file = tmp_path / "token"
    terminal.write(A, "t", 1)
    arguments = ("watch", A, "--until-synced", "--resume-file", str(resume_file))
    assert kinds(terminal.lines(*arguments)) == ["change", "bookmark"]
    assert json.loads(resume_file.read_text())[A]
    assert kinds(terminal.lines(*arguments)) == ["bookmark"]
    terminal.write(A, "t", 2)
    events = terminal.lines(*arguments)
    assert kinds(events) == ["change", "bookmark"]
    assert events[0]["change"]["snapshot"] is False
    assert [path.name for path in tmp_path.iterdir()] == ["token"], "no temporary file is left"


def test_a_watch_with_an_unusable_token_is_reset_and_begins_with_a_snapshot(terminal: Terminal, tmp_path: Path) -> None:
    resume_file = tmp_path / "token"
    terminal.write(A, "t", 1)
    arguments = ("watch", A, "--until-synced", "--resume-file", str(resume_file))
    (tmp_path / "other").mkdir()
    with running(tmp_path / "other", history=False) as another:
        Terminal(another).write(A, "t", 1)
        Terminal(another).lines(*arguments[:-1], str(tmp_path / "another"))
    token = (tmp_path / "another").read_text()
    resume_file.write_text(token)
    events = terminal.lines(*arguments)
    assert kinds(events) == ["reset", "change", "bookmark"]
    assert events[0]["reset"]["reason"] == "ERROR_REASON_TOKEN_OUT_OF_RANGE"
    assert events[1]["change"]["snapshot"] is True
    resume_file.write_text(token)
    shown = without_times(terminal.run(*arguments).stdout.splitlines())
    assert shown[0].startswith(f"# The watch of {A} can't continue from its token: ")


def test_states_of_a_namespace_are_shown(terminal: Terminal) -> None:
    status = terminal.lines("watch", f"{A}/t", "--until-synced", "--scope", "local")[0]
    state = {"state": "NAMESPACE_STATE_LOADING", "reason": "ERROR_REASON_NAMESPACE_LOADING", "message": f"{A} is being read."}
    assert status == {"namespace": A, "status": state}
    shown = without_times(terminal.run("watch", "public/b/t", "--until-synced", "--scope", "local").stdout.splitlines())
    assert shown == [
        "# public/b is being read.",
        "# public/b: ready",
        "- persistent://public/b/t LOCAL 0  no document",
        "# public/b is complete",
    ]


def test_mode_every_shows_every_change(terminal: Terminal, tmp_path: Path) -> None:
    resume_file = tmp_path / "token"
    terminal.write(A, "t", None)
    arguments = ("watch", A, "--mode", "every", "--until-synced", "--resume-file", str(resume_file))
    terminal.lines(*arguments)
    beginning = resume_file.read_text()
    for value in (1, 2, None):
        terminal.write(A, "t", value)
    changes = [each["change"] for each in terminal.lines(*arguments) if "change" in each]
    assert [change["document"].get("policies", {}).get("max_producer_per_topic") for change in changes] == [1, 2, None]
    assert [change["previous_version"] for change in changes[1:]] == [change["document"]["version"] for change in changes[:-1]]
    assert [change["previous"].get("policies") for change in changes] == [
        None,
        *(change["document"]["policies"] for change in changes[:-1]),
    ]
    resume_file.write_text(beginning)
    shown = without_times(terminal.run(*arguments).stdout.splitlines())
    assert [line.rpartition("  ")[2] for line in shown] == [
        "created: max_producer_per_topic=1",
        "max_producer_per_topic: 1 -> 2",
        "deleted: max_producer_per_topic=2",
        f"# {A} is complete",
    ]


def test_a_history_can_be_followed_from_its_beginning(recorded: Terminal, tmp_path: Path) -> None:
    resume_file = str(tmp_path / "token")
    for value in (1, 2):
        recorded.write(A, "t", value)
    arguments = ("watch", A, "--mode", "history", "--until-synced")
    entries = [each["entry"] for each in recorded.lines(*arguments, "--resume-file", resume_file) if "entry" in each]
    assert [entry["previous"].get("policies") for entry in entries] == [None, {"max_producer_per_topic": 1}]
    assert entries == [each["entry"] for each in recorded.lines("history", A, "--oldest-first")]
    assert kinds(recorded.lines(*arguments, "--resume-file", resume_file)) == ["bookmark"]
    shown = recorded.run(*arguments).stdout
    assert shown.index("created: max_producer_per_topic=1") < shown.index("max_producer_per_topic: 1 -> 2") < shown.index("is complete")
    code, error = recorded.failing("watch", f"{A}/t", "--mode", "history")
    assert (code, error["reason"]) == (2, "USAGE") and "--mode" in error["message"]


def test_a_resume_file_with_other_content_is_refused_and_left_unchanged(terminal: Terminal, tmp_path: Path) -> None:
    resume_file = tmp_path / "token"
    resume_file.write_text("precious")
    code, error = terminal.failing("watch", A, "--until-synced", "--resume-file", str(resume_file))
    assert (code, error["violations"][0]["reason"]) == (2, "MALFORMED_TOKEN")
    assert error["message"].startswith(f"{resume_file.name}: The file has no place of a watch: name another one, or remove it")
    assert resume_file.read_text() == "precious"


def test_without_a_server_a_watch_ends_after_its_timeout(terminal: Terminal) -> None:
    result = terminal.run("watch", A, "--server", "127.0.0.1:1", "--timeout", "0.3")
    assert result.exit_code == 5
    assert "No server listens at 127.0.0.1:1" in result.stderr


def test_targets_are_sorted_into_topics_and_namespaces() -> None:
    targets = ["public/a", "public/a/t", "persistent://public/a/t", "non-persistent://public/a/t"]
    assert sort_targets(targets) == ([*targets[1:]], ["public/a"])


_INTERRUPTIBLE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""A program that restores the default action of SIGINT and then runs another program.

If the tests run in the background of a shell, SIGINT is ignored, and children inherit that. A function that runs between fork and exec
can't restore it: in a process with gRPC's threads, it could block forever.
"""


@pytest.mark.slow
@pytest.mark.parametrize("output", ["json", "table"])
def test_changes_are_shown_as_they_happen_until_the_watch_is_interrupted(terminal: Terminal, tmp_path: Path, output: str) -> None:
    terminal.write(A, "t", None)  # loads the namespace
    resume_file = tmp_path / "token"
    watch = ["-m", "topicpolicies_server", "watch", A, "--output", output, "--resume-file", str(resume_file)]
    command = [sys.executable, "-c", _INTERRUPTIBLE, *watch]
    environment = {**terminal.environment, "PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        give_up = time.monotonic() + 100
        while A not in (resume_file.read_text() if resume_file.exists() else "") and process.poll() is None and time.monotonic() < give_up:
            time.sleep(0.01)
        assert process.poll() is None, process.communicate()
        assert A in json.loads(resume_file.read_text()), "the token is also saved before the end"
        versions = []
        for value in (5, 6, None):
            versions.append(terminal.write(A, "t", value))
            lines.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    assert (process.returncode, rest, errors) == (0, "", "")
    if output == "json":
        assert kinds([json.loads(line) for line in lines]) == ["bookmark", "change", "change", "change"]
    else:
        topic = f"persistent://{A}/t LOCAL"
        assert without_times(lines) == [
            f"# {A} is complete",
            f"+ {topic} {versions[0]} by somebody (not authenticated)  created: max_producer_per_topic=5",
            f"~ {topic} {versions[1]} by somebody (not authenticated)  max_producer_per_topic: 5 -> 6",
            f"- {topic} {versions[2]} by somebody (not authenticated)  deleted: max_producer_per_topic=6",
        ]
    assert kinds(terminal.lines("watch", A, "--until-synced", "--resume-file", str(resume_file))) == ["bookmark"], "nothing comes twice"


def test_a_first_connection_that_is_not_answered_ends_with_the_timeout(terminal: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        ended = terminal.run("watch", A, "--server", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "1")
    assert ended.exit_code == 5 and "did not answer in time" in ended.stderr
    assert time.monotonic() - began < 10
