"""Writing a partition: the order of appends, and when outcomes are known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.eventually import eventually
from tests.logs.pulsar.fakes import FakeProducer
from tests.logs.samples import a_key, an_update
from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.policies.events import Event, Placed
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.avro import Codec, Dialect
from topicpolicies_server.logs.change_log import LogError, LogSink
from topicpolicies_server.logs.pulsar.client import Result, refusal
from topicpolicies_server.logs.pulsar.writer import OpenProducer, PartitionWriter

NAMESPACE = "public/default"


class Writing:
    """A writer, the producers that it opened, and what it reported."""

    def __init__(
        self,
        *openings: BaseException | int,
        patience: float = 5.0,
        codec: Codec | None = None,
    ) -> None:
        """``openings``: the results of opening a producer, in turn: an error, or the version of the producer's schema; 0 afterwards."""
        self.openings = list(openings)
        self.opened: list[FakeProducer] = []
        self.attempts = 0
        self.outcomes: list[tuple[str, str]] = []
        self.placed: list[Placed] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.codec = codec or Codec()
        self.writer = PartitionWriter(1, self._open, self.codec.encode, cast("LogSink", self), patience_seconds=patience)

    async def _open(self, partition: int) -> OpenProducer:
        assert partition == 1
        self.attempts += 1
        await self.gate.wait()
        opening = self.openings.pop(0) if self.openings else 0
        if isinstance(opening, BaseException):
            raise opening
        self.opened.append(FakeProducer())
        return OpenProducer(self.opened[-1], self.codec, opening)

    def acknowledged(self, placed: list[Placed]) -> None:
        self.placed += placed
        self.outcomes += [(name_of(entry.event), "stored") for entry in placed]

    def append_failed(self, event: Event, error: LogError) -> None:
        self.outcomes.append((name_of(event), f"{error.reason} {'unknown' if error.outcome_unknown else 'certain'}"))

    def append(self, *names: str) -> None:
        for name in names:
            self.writer.append(an_update(a_key(NAMESPACE, name), event_id=name))

    async def until(self, holds: Callable[[], Any]) -> None:
        await eventually(holds)

    async def until_sent(self, *names: str, by: int = 0) -> FakeProducer:
        """Returns the producer number ``by`` once it has sent exactly these events."""
        keys = [a_key(NAMESPACE, name).topic for name in names]
        await self.until(lambda: len(self.opened) > by and self.opened[by].keys == keys)
        return self.opened[by]


def name_of(event: Event | None) -> str:
    return event.stamp.event_id if event and event.stamp else ""


async def test_events_are_sent_in_the_order_of_their_appends_before_and_after_the_producer_opens() -> None:
    writing = Writing()
    writing.gate.clear()
    writing.append(*(f"{n}" for n in range(500)))
    await asyncio.sleep(0.02)
    writing.gate.set()
    for _ in range(1_000):  # turns of the event loop
        if writing.opened and writing.opened[0].sent:
            break
        await asyncio.sleep(0)
    assert len(writing.opened[0].sent) < 500  # the others still wait
    writing.append("500")
    producer = await writing.until_sent(*(f"{n}" for n in range(501)))
    producer.acknowledge(501)
    await writing.until(lambda: writing.writer.outstanding == 0)
    assert writing.outcomes == [(f"{n}", "stored") for n in range(501)]
    assert [placed.position for placed in writing.placed] == sorted((p.position for p in writing.placed), key=lambda p: (len(p), p))
    assert writing.attempts == 1


async def test_a_slow_opening_is_not_begun_again_when_events_time_out() -> None:
    writing = Writing(patience=0.05)
    writing.gate.clear()
    appended = 0

    async def append_without_pause() -> None:
        nonlocal appended
        while True:
            writing.append(f"{appended}")
            appended += 1
            await asyncio.sleep(0.005)

    appending = asyncio.create_task(append_without_pause())
    await writing.until(lambda: len(writing.outcomes) > 40)  # several times as long as an event may wait
    assert {outcome for _, outcome in writing.outcomes} == {"LOG_UNAVAILABLE certain"}
    assert writing.attempts == 1
    writing.gate.set()
    await writing.until(lambda: writing.opened and len(writing.opened[0].sent) > 20)
    assert writing.attempts == 1
    appending.cancel()
    writing.opened[0].acknowledge(len(writing.opened[0].sent))
    await writing.until(lambda: writing.writer.outstanding == 0)
    assert [name for name, _ in writing.outcomes] == [f"{n}" for n in range(appended)]


async def test_an_opening_that_completes_after_its_events_timed_out_serves_the_next_event() -> None:
    writing = Writing(patience=0.05)
    writing.gate.clear()
    writing.append("late")
    await writing.until(lambda: writing.outcomes)
    writing.append("later")  # when no event waits any more
    await writing.until(lambda: len(writing.outcomes) == 2)
    writing.gate.set()
    await writing.until(lambda: writing.opened)
    writing.append("next")
    (await writing.until_sent("next")).acknowledge()
    await writing.until(lambda: len(writing.outcomes) == 3)
    assert writing.outcomes == [("late", "LOG_UNAVAILABLE certain"), ("later", "LOG_UNAVAILABLE certain"), ("next", "stored")]
    assert writing.attempts == 1


async def test_append_does_not_report_an_outcome_before_it_returns() -> None:
    writing = Writing()
    writing.append("first")
    producer = await writing.until_sent("first")
    producer.refusing = Result.ProducerQueueIsFull
    writing.append("second")
    assert writing.outcomes == []
    await writing.until(lambda: writing.outcomes)


@pytest.mark.parametrize(
    ("result", "reason"),
    [(Result.ProducerQueueIsFull, "LIMIT_REACHED"), (Result.MessageTooBig, "NOT_EXPRESSIBLE"), (Result.AlreadyClosed, "LOG_UNAVAILABLE")],
)
async def test_an_event_that_the_library_refuses_to_send_fails_with_a_known_outcome(result: Any, reason: str) -> None:
    writing = Writing()
    writing.append("first")
    producer = await writing.until_sent("first")
    producer.acknowledge()
    producer.refusing = result
    writing.append("second")
    await writing.until(lambda: len(writing.outcomes) == 2)
    assert writing.outcomes == [("first", "stored"), ("second", f"{reason} certain")]


@pytest.mark.parametrize(("result", "reason"), [(Result.Timeout, "LOG_UNAVAILABLE"), (Result.ProducerFenced, "LOG_UNAVAILABLE")])
async def test_an_event_that_fails_after_it_was_sent_has_an_unknown_outcome(result: Any, reason: str) -> None:
    writing = Writing()
    writing.append("first", "second")
    producer = await writing.until_sent("first", "second")
    producer.acknowledge()
    producer.acknowledge(1, result)
    await writing.until(lambda: len(writing.outcomes) == 2)
    assert writing.outcomes == [("first", "stored"), ("second", f"{reason} unknown")]


async def test_a_fenced_producer_is_replaced_for_the_next_event() -> None:
    writing = Writing()
    writing.append("first")
    (await writing.until_sent("first")).acknowledge(1, Result.ProducerFenced)
    await writing.until(lambda: writing.outcomes)
    writing.append("second")
    (await writing.until_sent("second", by=1)).acknowledge()
    await writing.until(lambda: len(writing.outcomes) == 2)
    assert writing.opened[0].closed
    assert writing.outcomes[1] == ("second", "stored")


@pytest.mark.parametrize("connected", [True, False])
async def test_a_producer_is_replaced_after_a_timeout_only_if_it_has_no_connection(connected: bool) -> None:
    writing = Writing()
    writing.append("first")
    producer = await writing.until_sent("first")
    producer.connected = connected
    producer.acknowledge(1, Result.Timeout)
    await writing.until(lambda: writing.outcomes)
    assert producer.closed is not connected
    writing.append("second")
    await (writing.until_sent("first", "second") if connected else writing.until_sent("second", by=1))


async def test_temporary_errors_of_an_opening_are_retried() -> None:
    writing = Writing(refusal("Opening", Result.Timeout), LogError(LogState.ADMIN_UNREACHABLE, "no answer"), 0)
    writing.append("first")
    (await writing.until_sent("first")).acknowledge()
    await writing.until(lambda: writing.outcomes)
    assert writing.outcomes == [("first", "stored")]
    assert writing.attempts == 3


async def test_an_event_without_a_producer_in_time_fails_with_a_known_outcome() -> None:
    writing = Writing(*[refusal("Opening", Result.ConnectError)] * 50, patience=0.3)
    writing.append("first", "second")
    await writing.until(lambda: len(writing.outcomes) == 2)
    assert writing.outcomes == [("first", "LOG_UNAVAILABLE certain"), ("second", "LOG_UNAVAILABLE certain")]
    assert writing.attempts > 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (refusal("Opening", Result.ProducerFenced), "LOG_UNAVAILABLE"),
        (refusal("Opening", Result.ProducerBusy), "LOG_UNAVAILABLE"),
        (refusal("Opening", Result.AuthorizationError), "LOG_UNAVAILABLE"),
        (refusal("Opening", Result.TopicNotFound), "LOG_UNAVAILABLE"),
        (LogError(Reason.NAMESPACE_NOT_FOUND, "gone"), "NAMESPACE_NOT_FOUND"),
    ],
)
async def test_a_refused_producer_fails_waiting_events_at_once_with_a_known_outcome(error: Exception, reason: str) -> None:
    writing = Writing(error)
    writing.append("first", "second")
    await writing.until(lambda: len(writing.outcomes) == 2)
    assert writing.outcomes == [("first", f"{reason} certain"), ("second", f"{reason} certain")]
    writing.append("third")
    await writing.until_sent("third")


async def test_a_producer_with_an_older_schema_is_replaced_and_what_it_sent_has_an_unknown_outcome() -> None:
    writing = Writing(0, 1)
    writing.append("first", "second")
    old = await writing.until_sent("first", "second")
    writing.writer.outdate(0)
    old.acknowledge()
    await writing.until(lambda: writing.outcomes)
    writing.writer.outdate(1)
    assert old.closed
    writing.append("third")
    new = await writing.until_sent("third", by=1)
    new.acknowledge()
    writing.writer.outdate(1)
    await writing.until(lambda: len(writing.outcomes) == 3)
    assert writing.outcomes == [("first", "stored"), ("second", "LOG_UNAVAILABLE unknown"), ("third", "stored")]
    assert not new.closed


async def test_a_producer_with_an_older_schema_is_closed_at_once_if_nothing_is_in_flight() -> None:
    writing = Writing(0, 1)
    writing.append("first")
    (await writing.until_sent("first")).acknowledge()
    await writing.until(lambda: writing.outcomes)
    writing.writer.outdate(1)
    assert writing.opened[0].closed
    writing.append("second")
    await writing.until_sent("second", by=1)


async def test_an_event_that_the_dialect_can_not_express_is_refused_by_append() -> None:
    writing = Writing(codec=Codec(dialect=Dialect.UNKNOWN))
    everywhere = an_update(a_key(NAMESPACE, 0, Scope.GLOBAL))
    with pytest.raises(LogError, match="GLOBAL document without"):
        writing.writer.append(everywhere)  # without a producer
    writing.append("first")
    await writing.until_sent("first")
    with pytest.raises(LogError, match="GLOBAL document without"):
        writing.writer.append(everywhere)  # with a producer
    assert writing.writer.outstanding == 1


async def test_an_idle_producer_is_closed_only_if_nothing_is_in_flight() -> None:
    writing = Writing()
    writing.append("first")
    producer = await writing.until_sent("first")
    writing.writer.close_if_idle(0.0)
    assert not producer.closed
    producer.acknowledge()
    await writing.until(lambda: writing.outcomes)
    writing.writer.close_if_idle(60.0)
    assert not producer.closed
    writing.writer.close_if_idle(0.0)
    assert writing.opened[0].closed
    writing.append("second")
    await writing.until_sent("second", by=1)


async def test_stopping_returns_which_events_were_sent_and_which_were_not_and_reports_nothing_afterwards() -> None:
    writing, waiting = Writing(), Writing()
    waiting.gate.clear()
    waiting.append("waiting")
    writing.append("sent")
    producer = await writing.until_sent("sent")
    left = writing.writer.stop() + waiting.writer.stop()
    assert [(name_of(event), sent) for event, sent in left] == [("sent", True), ("waiting", False)]
    waiting.gate.set()
    await asyncio.sleep(0.05)
    assert producer.closed
    assert writing.outcomes == waiting.outcomes == []


async def test_events_that_wait_for_a_producer_fail_as_not_sent_once_the_brokers_are_known_to_be_unreachable() -> None:
    writing = Writing()
    writing.gate.clear()
    writing.append("one", "two")
    await writing.until(lambda: writing.attempts == 1)
    writing.writer.fail_waiting(LogError(LogState.UNREACHABLE, "No broker can be reached."))
    assert writing.outcomes == [("one", "LOG_UNAVAILABLE certain"), ("two", "LOG_UNAVAILABLE certain")]
    writing.gate.set()
    writing.append("three")
    await writing.until_sent("three")
    writing.writer.fail_waiting(LogError(LogState.UNREACHABLE, "No broker can be reached."))
    assert len(writing.outcomes) == 2, "an event that was sent may be in the log"
