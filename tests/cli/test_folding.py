"""On a terminal, messages are folded between words; elsewhere each stays one line."""

from __future__ import annotations

import sys

import pytest

from topicpolicies_server.cli.exits import report
from topicpolicies_server.escaping import folded

ERROR = {
    "message": "",
    "violations": [{"field": "a", "description": "words " * 20 + "end."}, {"field": "b", "description": "It is wrong."}],
}


@pytest.mark.parametrize("terminal", [False, True])
def test_an_error_is_folded_on_a_terminal(terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    report(ERROR, json=False)
    lines = capsys.readouterr().err.splitlines()
    assert (max(map(len, lines)) <= 80) is terminal and len(lines) == (4 if terminal else 3)
    assert not terminal or lines[2].startswith("    words ")


def test_a_word_that_is_wider_than_the_terminal_is_left_whole() -> None:
    topic = "persistent://acme/orders/" + "t" * 80
    assert folded(f"No document of {topic}.\n\nTry again.", 40) == f"No document of\n{topic}.\n\nTry again."
