"""Fixtures: a history in a temporary file, and events to record in it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies import documents
from topicpolicies_server.core.policies.events import Action, Event, Placed, Stamp, StampKind
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.history import Bounds, History, Recorder, file, open_history
from topicpolicies_server.history.entries import FoldedEntry

NAMESPACE = "public/default"
BEGIN = 1_700_000_000_000
"""The time of the first event, in milliseconds since 1970."""
BOUNDS = Bounds(10 * 366 * 86_400.0, 1 << 30)


def topic(name: str = "orders") -> str:
    return f"persistent://{NAMESPACE}/{name}"


class Log:
    """A change log without entries, whose positions are row numbers without gaps."""

    def __init__(self, identity: str = "log", complete: str | None = "", partitions: int = 1) -> None:
        self.identity = identity
        self.partitions = partitions
        self.complete = complete
        self.shared = True
        self.cluster = "us"

    def follows(self, earlier: str, later: str) -> bool:
        return int(later) == int(earlier or "0") + 1

    def complete_after(self, partition: int) -> str | None:
        return self.complete


def position(row: int) -> str:
    return f"{row:012d}"


_ids = itertools.count(1)


def update(
    row: int, value: int, *, name: str = "orders", scope: Scope = Scope.LOCAL, actor: str = "ann", at: int | None = None, partition: int = 0
) -> Placed:
    """Returns an update of a sidecar. Its time is one second for each row, unless ``at`` is given."""
    document = documents.split(TopicPolicies(max_producer_per_topic=value))
    stamp = Stamp(f"event-{next(_ids)}", StampKind.UPDATE, f"request-{row}", "", actor, mask=("max_producer_per_topic",))
    event = Event(PolicyKey(topic(name), scope), Action.UPDATE, document, stamp)
    return Placed(partition, position(row), event, BEGIN + row * 1000 if at is None else at)


class Reader:
    """Reads one opening of a log as a follower does."""

    def __init__(self, recorder: Recorder, log: Log) -> None:
        self.recorder = recorder
        self.view = View(FoldContext())
        recorder.opened(log)  # type: ignore[arg-type]

    def read(self, *events: Placed) -> None:
        for placed in events:
            self.recorder.noted([self.taken(placed)])

    def taken(self, placed: Placed) -> FoldedEntry:
        """Folds an event without recording it."""
        folded, change, before, _ = self.view.fold(placed)
        return placed, before, folded, change if change is not None else before


@pytest.fixture
def now() -> list[int]:
    """The time of the history's clock, which tests can set."""
    return [BEGIN + 10**9]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


@pytest.fixture
async def history(path: Path, now: list[int]) -> AsyncIterator[History]:
    opened = open_history(path, BOUNDS, now=lambda: now[0])
    yield opened
    await opened.close()


def trim(path: Path, bounds: Bounds, now: int) -> None:
    """Drops what is beyond the bounds at a time (ms), as the writer does from time to time."""
    opened = file.open_file(path)
    opened.trim_by_age(now - int(bounds.age_seconds * 1000), 1_000_000)
    opened.trim_to_size(bounds.bytes, 1_000_000)
    opened.close()


def trim_oldest(path: Path, most: int) -> None:
    """Drops the entries that were recorded first."""
    opened = file.open_file(path)
    opened.trim_to_size(0, most)
    opened.close()


async def reader_of(history: History, log: Log | None = None) -> Reader:
    return Reader(history.recorder(NAMESPACE), log or Log())
