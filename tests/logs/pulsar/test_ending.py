"""A log ends completely and reports its end whatever unforeseen error occurs. No broker is needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.logs.pulsar.conftest import eventually
from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, an_update
from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.avro import Dialect
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarNamespaceLog
from topicpolicies_server.logs.pulsar.access import Access
from topicpolicies_server.logs.pulsar.partition import PartitionReader
from topicpolicies_server.logs.pulsar.reader import LogReader
from topicpolicies_server.logs.pulsar.topics import Layout

NAMESPACE = "public/default"
UNFORESEEN = pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])


class Topics:
    """Lookups of a log's topic that never return."""

    async def find(self, namespace: str) -> None:
        del namespace
        await asyncio.Event().wait()


def opened(recorder: Recorder, forgotten: list[object] | None = None) -> PulsarNamespaceLog:
    """Returns a log that does not exist, of brokers that never answer."""
    facts = SimpleNamespace(name="standalone", dialect=Dialect.SHARED_KEY, in_place=False)
    limits = PulsarLimits(close_seconds=0.2)
    access = Access(cast("Any", None), cast("Any", None), cast("Any", Topics()), cast("Any", facts), limits)
    held = list[object]() if forgotten is None else forgotten
    return PulsarNamespaceLog(access, Layout(NAMESPACE, 3), recorder, held.append)


def an_event(name: str) -> Event:
    return an_update(a_key(NAMESPACE, name), event_id=name)


@UNFORESEEN
async def test_a_log_is_closed_completely_although_waiting_for_outcomes_fails(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, forgotten = Recorder(), list[object]()
    log = opened(recorder, forgotten)
    recorder.append(log, an_event("one"))

    async def fail() -> None:
        raise error("an unforeseen error")

    monkeypatch.setattr(log._settled, "wait", fail)
    await asyncio.wait_for(log.close(), 10)
    assert forgotten == [log]
    assert [(failed.reason, failed.outcome_unknown) for _, failed in recorder.failures] == [("LOG_UNAVAILABLE", False)]
    assert "waiting for outcomes failed" in caplog.text


async def test_a_log_is_closed_completely_although_reporting_outcomes_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, forgotten = Recorder(), list[object]()
    log = opened(recorder, forgotten)
    recorder.append(log, an_event("one"))
    recorder.append(log, an_event("two"))
    reported: list[str] = []

    def fail(event: Event, error: LogError) -> None:
        del event
        reported.append(error.reason)
        raise ValueError("an unforeseen error")

    monkeypatch.setattr(recorder, "append_failed", fail)
    await asyncio.wait_for(log.close(), 10)
    assert reported == ["LOG_UNAVAILABLE"] * 2
    assert forgotten == [log]
    assert "could not be reported" in caplog.text


@UNFORESEEN
async def test_a_writer_that_can_not_be_closed_does_not_leave_the_others_open(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = opened(Recorder())
    closed: list[int] = []

    def closing(number: int) -> Callable[[], Awaitable[None]]:
        async def close() -> None:
            await asyncio.sleep(0)
            if number == 0:
                raise error("an unforeseen error")
            await asyncio.sleep(0.01)
            closed.append(number)

        return close

    for number, writer in enumerate(log._writers):
        monkeypatch.setattr(writer, "close", closing(number))
    await asyncio.wait_for(log.close(), 10)
    assert closed == [1, 2]
    assert "could not be closed" in caplog.text


class Failing:
    """A reader of a partition that fails at once, or never does anything if ``error`` is None."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error

    async def run(self, *_: object) -> None:
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()


def following(reader: Failing, listener: Recorder) -> LogReader:
    """Returns the reader of a log that is followed by ``reader``."""
    access = SimpleNamespace(limits=PulsarLimits())
    log = LogReader(cast("Access", access), cast("Any", None), Layout(NAMESPACE, 0), listener)
    log._tasks = [log._owned.begin(log._run(cast("PartitionReader", reader)), "reading it")]
    return log


@UNFORESEEN
async def test_an_unforeseen_error_of_a_reader_loses_the_log(error: type[BaseException]) -> None:
    listener = Recorder()
    following(Failing(error("an unforeseen error")), listener)
    await eventually(lambda: listener.losses)
    assert [(loss.reason, error.__name__ in loss.message) for loss in listener.losses] == [(Reason.LOG_UNAVAILABLE, True)]


async def test_stopping_the_readers_does_not_lose_the_log(caplog: pytest.LogCaptureFixture) -> None:
    listener = Recorder()
    reading = following(Failing(None), listener)
    await asyncio.sleep(0)
    reading.stop()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert listener.losses == []
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
