"""The top command: once, repeatedly into a pipe, on a terminal, and its end at Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.conftest import A, Terminal
from tests.cli.doctor.planted import admin_api
from tests.cli.faults import Fault, Proxy
from tests.cli.test_watch import _INTERRUPTIBLE


@contextmanager
def changing(terminal: Terminal) -> Iterator[None]:
    """Has another client change two topics, one of them twice as often, until the block ends."""
    stop = threading.Event()

    def change() -> None:
        value = 0
        while not stop.is_set():
            for topic in ("often", "often", "seldom"):
                value += 1
                terminal.write(A, topic, value % 1_000)

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)


def shown_once(terminal: Terminal, topics: int, *targets: str) -> Any:
    """Runs top once, with longer times until it shows this number of topics; returns its JSON."""
    found: Any = None
    for seconds in ("1", "5", "15"):
        found = terminal.json("top", *targets, "--once", "--seconds", seconds)
        if len(found["topics"]) >= topics:
            break
    return found


def test_top_once_counts_changes_by_topic_and_namespace(terminal: Terminal) -> None:
    terminal.write(A, "before", 1)
    with changing(terminal):
        found = shown_once(terminal, 2, A, "public/quiet")
    assert [each["topic"] for each in found["topics"]] == [f"persistent://{A}/often", f"persistent://{A}/seldom"]
    often, seldom = found["topics"]
    assert often["actor"] == "somebody" and often["changes"] >= seldom["changes"] > 0
    assert often["rate"] >= seldom["rate"] > 0
    assert found["namespaces"][0]["changes"] == found["changes"] == often["changes"] + seldom["changes"]
    assert found["seconds"] >= 1 and found["loading"] == found["problems"] == []


def test_top_once_shows_lines_of_namespaces_and_topics(terminal: Terminal) -> None:
    lines: list[str] = []
    with changing(terminal):
        for seconds in ("0.5", "5", "15"):
            result = terminal.run("top", f"{A}/often", "--once", "--seconds", seconds, "--limit", "1")
            assert result.exit_code == 0, result.output
            lines = result.stdout.splitlines()
            if "Nothing" not in result.stdout:
                break
    assert lines[0].endswith("1 namespace") and [line.split()[-2:] for line in (lines[2], lines[5])] == [
        ["NAMESPACE", "BY"],
        ["TOPIC", "BY"],
    ]
    assert lines[-1].split()[3:] == [f"{A}/often", "somebody"]


def test_a_stream_that_breaks_is_opened_again(terminal: Terminal, proxy: Proxy) -> None:
    terminal.write(A, "t", 1)
    proxy.faults.append(Fault(after=1))
    found = terminal.json("top", A, "--once", "--seconds", "0.1")
    assert proxy.met["WatchPolicies"] == 1 and proxy.calls["WatchPolicies"] == 2
    assert (found["loading"], found["changes"]) == ([], 0)
    assert "begins again" in found["problems"][0]


def test_without_a_server_top_ends_after_its_timeout(terminal: Terminal) -> None:
    result = terminal.run("top", A, "--server", "127.0.0.1:1", "--timeout", "0.3", "--once")
    assert result.exit_code == 5
    assert "No server can be reached at 127.0.0.1:1" in result.stderr


@pytest.mark.parametrize("arguments", [("top",), ("top", A, "--seconds", "0"), ("top", A, "--limit", "0"), ("top", "odd", "--once")])
def test_wrong_usage_of_top_is_exit_code_two(terminal: Terminal, arguments: tuple[str, ...]) -> None:
    assert terminal.failing(*arguments)[0] == 2


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", _INTERRUPTIBLE, "-m", "topicpolicies_server.cli", "top", *arguments]


@pytest.mark.slow
@pytest.mark.parametrize("output", ["json", "table"])
def test_a_pipe_gets_new_lines_repeatedly_until_top_is_interrupted(terminal: Terminal, output: str) -> None:
    environment = {**terminal.environment, "PYTHONPATH": ":".join(sys.path)}
    arguments = command(A, "--seconds", "0.1", "--output", output)
    with (
        changing(terminal),
        subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        shown = 0
        for line in process.stdout:
            shown += bool(json.loads(line)["topics"]) if output == "json" else "often" in line
            if shown >= 2:
                break
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    assert "\x1b" not in rest


@pytest.mark.slow
def test_on_a_terminal_lines_are_replaced_and_ctrl_c_ends_top(terminal: Terminal) -> None:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    environment = {**terminal.environment, "PYTHONPATH": ":".join(sys.path), "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    output = b""

    def read() -> bytes:
        try:
            return os.read(ours, 65_536)
        except OSError:  # no output yet, or the end of the output
            return b""

    with (
        changing(terminal),
        subprocess.Popen(command(A, "--seconds", "0.1"), env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process,
    ):
        give_up = time.monotonic() + 20
        while output.count(b"often") < 3 and time.monotonic() < give_up:
            output += read()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        while process.poll() is None and time.monotonic() < give_up + 20:
            output += read()
            time.sleep(0.01)
    os.close(theirs)
    output += read()
    os.close(ours)
    assert process.returncode in (0, 130), output
    assert b"Traceback" not in output
    assert b"\x1b[1A" in output, "the previous lines are replaced"
    assert output.rstrip().endswith(b"\x1b[?25h"), "the cursor is shown again"


def test_the_namespaces_of_a_tenant_or_of_all_are_read_from_the_admin_api(terminal: Terminal) -> None:
    answers = {"tenants": (200, ["public", "acme"]), "namespaces/public": (200, [A, "public/quiet"]), "namespaces/acme": (200, ["acme/a"])}
    with admin_api(answers) as api:
        url = f"http://127.0.0.1:{api.port}"
        with changing(terminal):
            found = shown_once(terminal, 2, "public", "--admin-url", url)
        of_one, of_all = (terminal.run("top", *named, "--admin-url", url, "--once", "--seconds", "0.2") for named in (("public",), ()))
        code, error = terminal.failing("top", "nobody", "--admin-url", url)
    assert [each["topic"] for each in found["topics"]] == [f"persistent://{A}/often", f"persistent://{A}/seldom"]
    assert "; 2 namespaces" in of_one.stdout and "; 3 namespaces" in of_all.stdout
    assert (code, error["message"]) == (4, "There is no tenant nobody.")


def test_an_admin_api_that_refuses_and_an_invalid_admin_url_are_reported(terminal: Terminal) -> None:
    with admin_api({"namespaces/public": (403, {"reason": "no"})}) as api:
        code, error = terminal.failing("top", "public", "--admin-url", f"http://127.0.0.1:{api.port}")
    assert code != 0 and error["reason"] == "CLUSTER_UNAVAILABLE"
    assert terminal.failing("top", "public", "--admin-url", "nonsense")[0] == 2


@pytest.mark.parametrize("named", [(), ("acme",)])
def test_without_a_namespace_the_error_names_the_possible_arguments(terminal: Terminal, named: tuple[str, ...]) -> None:
    result = terminal.run("top", *named)
    assert result.exit_code == 2
    message = " ".join(result.stderr.replace("│", " ").split())
    assert "tenant/namespace" in message and "--admin-url" in message and "pulsar-admin namespaces list" in message
