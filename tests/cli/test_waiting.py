"""A command that waits says so on a terminal, and nowhere else."""

from __future__ import annotations

import sys
import time

import pytest

from topicpolicies_server.cli import notes as waits
from topicpolicies_server.cli.settings import Output, Settings


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written on standard error, which is a terminal."""
    lines: list[str] = []
    monkeypatch.setattr(waits, "SILENT_SECONDS", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.echo", lambda line, **_: lines.append(line))
    return lines


def passed(said: list[str], settings: Settings, seconds: float, what: str = "") -> list[str]:
    with waits.waiting(settings, what):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not said:
            time.sleep(0.005)
    return said


def test_who_waits_at_a_terminal_is_told_for_what_and_how_long(said: list[str]) -> None:
    assert passed(said, Settings("sidecar:6680"), 20) == ["Waiting for sidecar:6680, for 30 s at most (--timeout) ..."]


def test_what_takes_long_is_named(said: list[str]) -> None:
    assert passed(said, Settings("sidecar:6680"), 20, "Comparing") == ["Comparing ..."]


def test_nothing_is_said_to_programs_nor_after_the_answer(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert passed(said, Settings("sidecar:6680", output=Output.JSON), 0.1) == []
    with waits.waiting(Settings("sidecar:6680")) as answered:
        answered()
        time.sleep(0.1)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert passed(said, Settings("sidecar:6680"), 0.1) == []
