"""Asking a log whether it can be reached."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import cast

import pytest

from tests.logs.pulsar.conftest import eventually
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.health import LogProbe, Pulse, State, report
from topicpolicies_server.health import pulse as pulse_module
from topicpolicies_server.logs.change_log import ChangeLog, LogError
from topicpolicies_server.logs.memory import MemoryLog

GONE = LogError(Reason.LOG_UNREACHABLE, "No broker can be reached.")


class FakeLog:
    """A log that may be out of reach."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.hangs = False
        self.cut: list[LogError] = []
        self.asked = 0

    async def reach(self) -> None:
        """Answers, or not."""
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error

    def cut_off(self, error: LogError) -> None:
        """Is told."""
        self.cut.append(error)


def probe(log: object, patience: float = 0.2) -> LogProbe:
    return LogProbe(cast("ChangeLog", log), patience)


async def test_a_log_that_goes_and_comes_back_is_told_in_one_line_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "topicpolicies_server.health")
    log = FakeLog()
    probing = probe(log)
    await probing.start()
    assert probing.readiness.ready, "a start returns with the first answer"
    log.error = GONE
    await eventually(lambda: probing.readiness.cut_off)
    await asyncio.sleep(0.5)
    assert log.cut == [GONE], "the log is told once"
    log.error = None
    await eventually(lambda: probing.readiness.ready)
    await probing.stop()
    assert [record.getMessage().split(", after")[0] for record in caplog.records] == [
        "not ready: the change log can't be reached: No broker can be reached.",
        "ready: the change log can be reached again",
    ]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


async def test_a_log_that_answers_only_after_a_while_is_told_as_soon_as_it_does(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "topicpolicies_server.health")
    log = FakeLog()
    log.error = GONE
    probing = probe(log, 60.0)
    await probing.start()
    log.error = None
    await eventually(lambda: probing.readiness.ready)
    await probing.stop()
    assert [record.getMessage() for record in caplog.records] == ["ready: the change log can be reached"]


@pytest.mark.parametrize("error", [RuntimeError("nobody foresaw this"), asyncio.CancelledError()])
async def test_asking_that_fails_in_a_way_that_nobody_foresaw_is_no_answer_and_goes_on(error: BaseException) -> None:
    log = FakeLog()
    log.error = error
    probing = probe(log)
    await probing.start()
    await eventually(lambda: probing.readiness.cut_off)
    log.error = None
    await eventually(lambda: probing.readiness.ready)
    await probing.stop()


async def test_a_log_that_hangs_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topicpolicies_server.health.log_probe._ANSWER_SECONDS", 0.1)
    log = FakeLog()
    log.hangs = True
    probing = probe(log)
    await probing.start()
    await eventually(lambda: probing.readiness.cut_off)
    assert probing.readiness.problem is not None and probing.readiness.problem.message == "There was no answer within 0.1 s."
    await probing.stop()


async def test_a_process_that_was_stopped_itself_does_not_blame_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topicpolicies_server.health.log_probe._ANSWER_SECONDS", 0.2)
    log = FakeLog()
    probing = probe(log)
    await probing.start()
    log.hangs = True
    await eventually(lambda: log.asked > 1)
    time.sleep(1.5)  # noqa: ASYNC251 - nothing runs, as if the process had been stopped
    log.hangs = False
    asked = log.asked
    await eventually(lambda: log.asked > asked + 1)
    assert probing.readiness.ready and probing.readiness.transitions == 1, "it was not told to be out of reach"
    await probing.stop()


async def test_a_process_that_was_stopped_before_is_not_cut_off_when_it_is_stopped_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topicpolicies_server.health.log_probe._ANSWER_SECONDS", 0.3)
    log = FakeLog()
    probing = probe(log)
    await probing.start()
    for _ in range(3):
        log.hangs = True
        asked = log.asked
        await eventually(lambda before=asked: log.asked > before)  # type: ignore[misc]
        time.sleep(1.5)  # noqa: ASYNC251 - nothing runs, as if the process had been stopped
        log.hangs = False
        asked = log.asked
        await eventually(lambda before=asked: log.asked > before + 1)  # type: ignore[misc]
    assert probing.readiness.ready and probing.readiness.transitions == 1, "there were answers between the pauses"
    await probing.stop()


async def test_a_process_that_is_stopped_again_and_again_believes_that_the_log_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topicpolicies_server.health.log_probe._ANSWER_SECONDS", 0.05)
    monkeypatch.setattr("topicpolicies_server.health.log_probe._LATE_SECONDS", 0.05)
    log = FakeLog()
    log.hangs = True
    probing = probe(log)
    await probing.start()
    for _ in range(40):
        if probing.readiness.cut_off:
            break
        time.sleep(0.2)  # noqa: ASYNC251
        await asyncio.sleep(0.05)
    assert probing.readiness.cut_off
    await probing.stop()


async def test_a_start_does_not_wait_for_a_log_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topicpolicies_server.health.log_probe._FIRST_SECONDS", 0.1)
    log = FakeLog()
    log.hangs = True
    probing = probe(log, 3.0)
    await probing.start()
    assert probing.readiness.state is State.STARTING and not probing.readiness.ready
    await probing.stop()


async def test_a_log_in_memory_is_always_reached() -> None:
    probing = probe(MemoryLog())
    await probing.start()
    assert probing.readiness.ready
    await probing.stop()


async def test_an_event_loop_that_does_not_turn_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    probing, pulse = probe(MemoryLog()), Pulse()
    assert all(not check.problem for check in report(probing.readiness, pulse).ready)
    monkeypatch.setattr(time, "monotonic", lambda: pulse._beat_at + pulse_module.STUCK_SECONDS + 1)
    (loop,) = report(probing.readiness, pulse).live
    assert loop.problem == "The event loop has not turned for 31 s."
    monkeypatch.undo()
    pulse.stop()
