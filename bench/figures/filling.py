"""Embedded logs with many documents, written as the sidecar writes them, and reading their rows."""

from __future__ import annotations

import asyncio
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.embedded_log import Waiting
from topicpolicies.v1.policies_pb2 import RetentionPolicies, TopicPolicies
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.core.policies.events import Action, Event, Remembered, Stamp, StampKind
from topicpolicies_server.logs.sqlite import SqliteLog
from topicpolicies_server.logs.sqlite.file import position_of

NAMESPACE = "bench/figures"
_TURN = 256
"""Events that are appended in one turn of the event loop."""
_PENDING = 64 * _TURN
"""The most events that wait for the log at a time: their bytes are bounded, too."""


def documents(topics: int, remembered: int = 0) -> Iterator[Event]:
    """Yields an update of each topic, whose event carries this many earlier requests."""
    for number in range(topics):
        yield an_update(topic(number), number, remembered)


def an_update(of: str, number: int, remembered: int = 0) -> Event:
    """Returns an update of a topic without a document. The event names all that it changes, so loading it leaves nothing to repair."""
    return Event(PolicyKey(of, Scope.LOCAL), Action.UPDATE, split(policies(number)), _stamp(number, remembered))


def topic(number: int) -> str:
    """Returns the name of a topic."""
    return f"persistent://{NAMESPACE}/topic-{number}"


def policies(number: int) -> TopicPolicies:
    """Returns a small document; those of two topics differ."""
    retention = RetentionPolicies(retention_time_in_minutes=number, retention_size_in_mb=number)
    return TopicPolicies(max_producer_per_topic=number, retention_policies=retention)


def _stamp(number: int, remembered: int) -> Stamp:
    version = position_of(number + 1)
    requests = tuple(Remembered(uuid.uuid4().hex, uuid.uuid4().hex[:16], version, version) for _ in range(remembered))
    mask = ("max_producer_per_topic", "retention_policies")  # all that changes, so that there is nothing to repair
    base = version if requests else ""
    return Stamp(str(uuid.uuid4()), StampKind.UPDATE, request_id=uuid.uuid4().hex, mask=mask, base=base, remembered=requests)


def fill(path: Path, events: Iterable[Event], most: int) -> None:
    """Writes a log. ``most``: the maximum number of events."""
    asyncio.run(_fill(path, events, most))


async def _fill(path: Path, events: Iterable[Event], most: int) -> None:
    change_log = SqliteLog(path, in_flight_limit=most)
    sink = Waiting()
    log = await change_log.open(NAMESPACE, sink)
    await sink.ready.wait()
    loop = asyncio.get_running_loop()
    for number, event in enumerate(events):
        assert event.stamp is not None, "it was just made"
        sink.waiters[event.stamp.event_id] = loop.create_future()
        log.append(event)
        if number % _PENDING == 0:
            await sink.waiters[event.stamp.event_id]
        elif number % _TURN == 0:
            await asyncio.sleep(0)
    await log.close()
    await change_log.close()


def rows_read(path: Path) -> tuple[int, float]:
    """Reads all rows of a log's events, and does nothing else. Returns their number and the seconds that it takes."""
    begin = time.perf_counter()
    connection = sqlite3.connect(path)
    try:
        count = sum(1 for _ in connection.execute("SELECT * FROM events ORDER BY place"))
    finally:
        connection.close()
    return count, time.perf_counter() - begin
