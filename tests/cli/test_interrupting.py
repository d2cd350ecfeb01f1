"""Interrupted commands: the resume file of a watch covers exactly the events that it wrote, and apply prints a summary."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pytest

from tests.cli import programs
from tests.cli.conftest import A, Terminal
from topicpolicies import ChangeResult, Client, update_request

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")]
EVENTS = 1_500
ROUNDS = 12
PROGRAM = """
import signal

from topicpolicies_server.cli.app import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # SIGINT is ignored if the tests run in the background
main()
"""


def start(terminal: Terminal, arguments: Sequence[str], stdout: IO[str] | int) -> subprocess.Popen[str]:
    """Starts a command as a real process, which SIGINT interrupts."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**terminal.environment, "PYTHONPATH": ":".join(sys.path)},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def watching(resume_file: Path, *more: str) -> tuple[str, ...]:
    return ("watch", A, "--mode", "history", "--output", "json", "--resume-file", str(resume_file), *more)


def fill(terminal: Terminal, events: int, first: int = 1) -> None:
    with Client(terminal.address) as client:
        updates = (update_request(f"persistent://{A}/t{each % 7}", max_producer_per_topic=each) for each in range(first, first + events))
        assert all(isinstance(outcome, ChangeResult) for _, outcome in client.batch(updates))


def positions(lines: Sequence[str]) -> list[str]:
    return [event["position"] for event in map(json.loads, lines) if "entry" in event]


def test_a_watch_interrupted_at_any_moment_loses_and_repeats_no_event(recorded: Terminal, tmp_path: Path) -> None:
    fill(recorded, EVENTS)
    resume_file, out = tmp_path / "token", tmp_path / "out.jsonl"
    everything = positions(recorded.run(*watching(tmp_path / "other", "--until-synced")).stdout.splitlines())
    assert len(everything) == EVENTS
    chance = random.Random(5)
    cut, delivered = 0, list[str]()
    for _ in range(ROUNDS):
        with out.open("ab") as file:
            begun, give_up = out.stat().st_size, time.monotonic() + 150

            def written(begun: int = begun, give_up: float = give_up) -> None:
                while out.stat().st_size == begun:
                    assert time.monotonic() < give_up, "nothing was written"
                    time.sleep(0.001)
                time.sleep(chance.uniform(0, 0.01))

            ended = programs.interrupted(watching(resume_file), recorded.environment, file, written)
            assert (ended.returncode, ended.stderr) == (0, "")
        delivered = positions(out.read_text().splitlines())
        assert delivered == everything[: len(delivered)], "in order, none missing, none repeated"
        cut += 0 < len(delivered) < EVENTS
    assert cut > 1, "at least two interruptions came before the last event"
    rest = positions(recorded.run(*watching(resume_file, "--until-synced")).stdout.splitlines())
    assert [*delivered, *rest] == everything


def test_a_terminated_watch_saves_its_token(recorded: Terminal, tmp_path: Path) -> None:
    fill(recorded, 3)
    resume_file, out = tmp_path / "token", tmp_path / "out.jsonl"
    with out.open("ab") as file:
        ended = programs.interrupted(watching(resume_file), recorded.environment, file, lambda: until(out, b"synced"), signal.SIGTERM)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert positions(recorded.run(*watching(resume_file, "--until-synced")).stdout.splitlines()) == []


def until(file: Path, text: bytes) -> None:
    give_up = time.monotonic() + 150
    while text not in file.read_bytes():
        assert time.monotonic() < give_up, f"{text!r} was not written"
        time.sleep(0.005)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_apply_prints_how_many_changes_were_done_and_not_sent(
    recorded: Terminal, tmp_path: Path, number: int, code: int
) -> None:
    declared, out = tmp_path / "policies.yaml", tmp_path / "out"
    topics = [f"persistent://{A}/t{each}" for each in range(1_500)]
    lines = (f"  - {{topic: '{each}', set: {{max_producer_per_topic: 1}}}}" for each in topics)
    declared.write_text("\n".join(["version: 1", "policies:", *lines]))
    with out.open("ab") as file:
        arguments = ["apply", "-f", str(declared)]
        ended = programs.interrupted(arguments, recorded.environment, file, lambda: until(out, b"\nchanged"), number)
    done = out.read_text().count("\nchanged")
    assert ended.returncode == code
    assert ended.stderr.splitlines()[-1] == f"{done} done, {len(topics) - done} not sent: apply again to complete it."
    assert 0 < done < len(topics)
    assert len(recorded.json("list", A)["documents"]) == done


@pytest.mark.parametrize("output", ["json", "table"])
def test_events_that_could_not_be_written_are_delivered_again(recorded: Terminal, tmp_path: Path, output: str) -> None:
    resume_file = tmp_path / "token"
    fill(recorded, 1)
    recorded.lines(*watching(resume_file, "--until-synced"))
    fill(recorded, 3, first=2)
    arguments = watching(resume_file, "--until-synced", "--output", output)
    with Path("/dev/full").open("w") as full, start(recorded, arguments, full) as process:
        _, errors = process.communicate(timeout=20)
    assert len(positions(recorded.run(*watching(resume_file, "--until-synced")).stdout.splitlines())) == 3
    assert process.returncode == 1
    assert "No space left on device" in errors and "Traceback" not in errors and "ignored" not in errors


def test_events_for_a_closed_pipe_are_delivered_again(recorded: Terminal, tmp_path: Path) -> None:
    resume_file = tmp_path / "token"
    fill(recorded, 1)
    recorded.lines(*watching(resume_file, "--until-synced"))
    fill(recorded, 3, first=2)
    reading, writing = os.pipe()
    os.close(reading)
    with start(recorded, watching(resume_file, "--until-synced"), writing) as process:
        os.close(writing)
        process.communicate(timeout=20)
    assert process.returncode == 1
    assert len(positions(recorded.run(*watching(resume_file, "--until-synced")).stdout.splitlines())) == 3


def test_a_resume_file_that_can_not_be_written_is_refused_before_the_watch_begins(recorded: Terminal, tmp_path: Path) -> None:
    fill(recorded, 1)
    result = recorded.run(*watching(tmp_path / "none" / "token", "--until-synced"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "No such file or directory" in result.stderr
    assert not list(tmp_path.glob(".token*"))
