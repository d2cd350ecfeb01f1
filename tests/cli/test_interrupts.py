"""An interrupt ends a command as an interrupt, whatever exception comes of it."""

from __future__ import annotations

import signal
import threading

import pytest

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
