"""A model of the service: the change logs of some namespaces, and watch streams over them, without gRPC.

It keeps the promises of ``WatchPolicies`` and nothing else. Positions are row numbers, which all partitions share. A stream is a
generator: it yields None when there is nothing to send, and resumes if it is asked again after more was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from topicpolicies.v1 import errors_pb2, policies_pb2, service_pb2

PARTITIONS = 2


class Row(NamedTuple):
    """One event of a log."""

    number: int
    namespace: str
    topic: str
    value: int | None
    """The document's max_producer_per_topic; None: the document was deleted."""
    previous: int

    @property
    def partition(self) -> int:
        return sum(self.topic.encode()) % PARTITIONS

    def change(self, *, snapshot: bool) -> service_pb2.WatchEvent:
        document = policies_pb2.PolicyDocument(topic=self.topic, scope=policies_pb2.SCOPE_LOCAL, version=position(self.number))
        if self.value is not None:
            document.policies.max_producer_per_topic = self.value
        change = service_pb2.PolicyChange(
            document=document,
            previous_version="" if snapshot else position(self.previous),
            partition=self.partition,
            position=position(self.number),
            origin=service_pb2.ChangeOrigin(actor="somebody"),
        )
        return service_pb2.WatchEvent(namespace=self.namespace, change=change)


def position(number: int) -> str:
    """Returns the position of a row. As strings, positions sort as the numbers."""
    return f"{number:06d}"


class LogModel:
    """The logs of some namespaces, and their current documents."""

    def __init__(self, *namespaces: str) -> None:
        self.rows: dict[str, list[Row]] = {name: [] for name in namespaces}
        self.horizon: dict[str, int] = dict.fromkeys(namespaces, 0)
        """By namespace: the smallest position that can be resumed from."""
        self.resets = 0
        """How many tokens could not be resumed from."""
        self.resumed = 0
        """How many times a namespace was resumed from a token."""

    def write(self, namespace: str, local: str, value: int | None) -> Row:
        """Writes or deletes the document of a topic; returns the row."""
        topic = f"persistent://{namespace}/{local}"
        rows = self.rows[namespace]
        previous = max((row.number for row in rows if row.topic == topic), default=0)
        row = Row(len(rows) + 1, namespace, topic, value, previous)
        rows.append(row)
        return row

    def forget(self, namespace: str) -> None:
        """Moves the horizon to the end of the log: every older token is answered with a reset."""
        self.horizon[namespace] = len(self.rows[namespace])

    def documents(self) -> dict[str, int]:
        """Returns the values of the current documents by topic."""
        newest = {row.topic: row.value for rows in self.rows.values() for row in rows}
        return {topic: value for topic, value in newest.items() if value is not None}

    def stream(self, request: service_pb2.WatchPoliciesRequest, *, most: int = 1) -> Iterator[service_pb2.WatchPoliciesResponse | None]:
        """Yields the messages of a stream that is opened now, of at most ``most`` events each; None: there is nothing to send."""
        parts = [self._part(name, request) for name in [*request.namespaces]]
        while True:
            quiet = True
            for part in parts:
                batch: list[service_pb2.WatchEvent] = []
                while (event := next(part)) is not None:
                    batch.append(event)
                    if len(batch) == most:
                        quiet = False
                        yield service_pb2.WatchPoliciesResponse(events=batch)
                        batch = []
                if batch:
                    quiet = False
                    yield service_pb2.WatchPoliciesResponse(events=batch)
            if quiet:  # otherwise, an earlier part may have more by now
                yield None

    def _part(self, name: str, request: service_pb2.WatchPoliciesRequest) -> Iterator[service_pb2.WatchEvent | None]:
        rows = self.rows[name]
        at = len(rows)
        token = request.resume.get(name)
        if token is not None and (token.log != name or any(each and int(each) < self.horizon[name] for each in token.positions)):
            token = None
            self.resets += 1
            reset = service_pb2.WatchReset(reason=errors_pb2.ERROR_REASON_EVENTS_GONE, message="The token is too old.")
            yield service_pb2.WatchEvent(namespace=name, reset=reset)
        if token is not None:
            self.resumed += 1
            for row in rows[:at]:
                mine = token.positions[row.partition] if row.partition < len(token.positions) else ""
                if position(row.number) > mine:
                    yield row.change(snapshot=False)
        else:
            newest = {row.topic: row for row in rows[:at]}
            for row in sorted((row for row in newest.values() if row.value is not None), key=lambda row: row.topic):
                yield row.change(snapshot=True)
        yield self._bookmark(name, at, service_pb2.BOOKMARK_KIND_SYNCED)
        while True:
            if at == len(rows):
                yield None
            while at < len(rows):
                yield rows[at].change(snapshot=False)
                at += 1
                if at % 7 == 0:
                    yield self._bookmark(name, at, service_pb2.BOOKMARK_KIND_TIMER)

    def _bookmark(self, name: str, at: int, kind: service_pb2.BookmarkKind.ValueType) -> service_pb2.WatchEvent:
        token = service_pb2.WatchToken(log=name, positions=[position(at)] * PARTITIONS)
        bookmark = service_pb2.Bookmark(kind=kind, token=token)
        bookmark.confirmed_time.FromDatetime(datetime(2026, 1, 1, tzinfo=UTC))
        return service_pb2.WatchEvent(namespace=name, bookmark=bookmark)
