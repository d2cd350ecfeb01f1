"""An interrupt ends a command as an interrupt, whatever exception comes of it."""

from __future__ import annotations

import signal
import threading

import pytest
import typer
from typer.testing import CliRunner

from topicpolicies_server.cli.app import app


def test_an_exception_that_an_interrupt_caused_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        condition = threading.Condition()
        with condition:
            condition.release()  # as in the middle of ``Condition.wait``
            raise KeyboardInterrupt

    monkeypatch.setattr("topicpolicies_server.cli.server.metadata.version", interrupted)
    with pytest.raises(SystemExit) as ended:
        app(["version"])
    assert ended.value.code == 128 + signal.SIGINT


@pytest.mark.parametrize(("answer", "code", "told"), [("n", 1, ""), (EOFError, 1, "\n"), (KeyboardInterrupt, 128 + signal.SIGINT, "\n")])
def test_ctrl_c_at_a_question_is_an_interrupt_and_the_answer_no_an_error(
    monkeypatch: pytest.MonkeyPatch, answer: str | type[BaseException], code: int, told: str
) -> None:
    def answered(_: str) -> str:
        if isinstance(answer, str):
            return answer
        raise answer

    def asked(*_: object) -> None:
        monkeypatch.setattr("typer._click.termui.visible_prompt_func", answered)
        typer.confirm("Sure?", abort=True)

    monkeypatch.setattr("topicpolicies_server.cli.server.metadata.version", asked)
    ended = CliRunner().invoke(app, ["version"])
    assert (ended.exit_code, ended.stderr) == (code, f"{told}Nothing was changed.\n")
