"""The probe that asks a log whether it can be reached."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import cast

import pytest

from tests.eventually import eventually
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import ChangeLogs, LogError
from topicpolicies_server.readiness import STUCK_SECONDS, Readiness, State

GONE = LogError(LogState.UNREACHABLE, "No broker can be reached.")


class FakeLog:
    """A log that may be out of reach."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.hangs = False
        self.cut: list[LogError] = []
        self.asked = 0

    async def reach(self) -> None:
        """Returns at once, hangs, or raises ``error``."""
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error

    def cut_off(self, error: LogError) -> None:
        """Records that the log was cut off."""
        self.cut.append(error)


def probe(log: object, patience: float = 0.2) -> Readiness:
    return Readiness(patience, cast("ChangeLogs", log))


async def test_an_outage_of_the_log_and_its_end_are_each_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "topicpolicies_server.readiness")
    log = FakeLog()
    probing = probe(log)
    await probing.start()
    assert probing.ready, "the start returned before the first answer"
    log.error = GONE
    await eventually(lambda: probing.cut_off)
    await asyncio.sleep(0.5)
    assert log.cut == [GONE], "the log was not cut off exactly once"
    log.error = None
    await eventually(lambda: probing.ready)
    await probing.stop()
    assert [record.getMessage().split(", after")[0] for record in caplog.records] == [
        "not ready: the change log can't be reached: No broker can be reached.",
        "ready: the change log can be reached again",
    ]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


@pytest.mark.parametrize("error", [RuntimeError("unexpected failure"), asyncio.CancelledError()])
async def test_an_unexpected_failure_of_the_probe_counts_as_no_answer_and_the_probe_continues(error: BaseException) -> None:
    log = FakeLog()
    log.error = error
    probing = probe(log)
    await probing.start()
    await eventually(lambda: probing.cut_off)
    log.error = None
    await eventually(lambda: probing.ready)
    await probing.stop()


async def test_a_log_that_hangs_counts_as_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topicpolicies_server.readiness._ANSWER_SECONDS", 0.1)
    log = FakeLog()
    log.hangs = True
    probing = probe(log)
    await probing.start()
    await eventually(lambda: probing.cut_off)
    assert probing.problem is not None and probing.problem.message == "There was no answer within 0.1 s."
    await probing.stop()


async def test_the_start_does_not_wait_for_a_log_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topicpolicies_server.readiness._FIRST_SECONDS", 0.1)
    log = FakeLog()
    log.hangs = True
    probing = probe(log, 3.0)
    await probing.start()
    assert probing.state is State.STARTING and not probing.ready
    await probing.stop()


async def test_an_event_loop_that_has_not_turned_for_too_long_is_reported_as_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    probing = probe(FakeLog())
    await probing.start()
    await probing.stop()
    assert all(not check.problem for check in probing.report().ready)
    turned_at = probing._turned_at
    monkeypatch.setattr(time, "monotonic", lambda: turned_at + STUCK_SECONDS + 1)
    (loop,) = probing.report().live
    assert loop.problem == "The event loop has not turned for 31 s."
