"""A call that takes long says so on a terminal, once, and nowhere else."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from topicpolicies_server.cli import calls
from topicpolicies_server.cli.globals import Globals, Output


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written on standard error, which is a terminal."""
    lines: list[str] = []
    monkeypatch.setattr(calls, "SILENT_SECONDS", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.echo", lambda line, **_: lines.append(line))
    return lines


def called(said: list[str], settings: Globals, seconds: float) -> list[str]:
    """Makes a call that is answered after ``seconds``, or once something is said."""

    def with_call(*_: Any, **_more: Any) -> tuple[str, Any]:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not said:
            time.sleep(0.005)
        return "answer", SimpleNamespace(trailing_metadata=lambda: ())

    method = calls._noting(SimpleNamespace(with_call=with_call), settings, set())
    assert method("request") == "answer"
    return said


def test_who_waits_at_a_terminal_is_told_for_what_and_how_long(said: list[str]) -> None:
    assert called(said, Globals("sidecar:6680"), 20) == ["Waiting for sidecar:6680, for 30 s at most (--timeout) ..."]


def test_nothing_is_said_to_programs_nor_after_the_answer(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(said, Globals("sidecar:6680", output=Output.JSON), 0.1) == []
    assert called(said, Globals("sidecar:6680"), 0) == []
    time.sleep(0.1)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert called(said, Globals("sidecar:6680"), 0.1) == []
