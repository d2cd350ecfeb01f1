"""A service in miniature: the change logs of some namespaces, and watch streams over them, without gRPC.

It keeps the promises of ``WatchPolicies`` and nothing else. Positions are row numbers, several partitions share them. A stream is a
generator: it yields None when there is nothing to say for now, and goes on when asked again after more was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.client.statuses import Code, Refusal
from topicpolicies.v1 import events_pb2, policies_pb2, service_pb2

PARTITIONS = 2


class Refused(Exception):
    """The stream is refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Row(NamedTuple):
    """One event of a log."""

    number: int
    namespace: str
    topic: str
    value: int | None
    """max_producer_per_topic; None is a delete."""
    previous: int

    @property
    def partition(self) -> int:
        return sum(self.topic.encode()) % PARTITIONS

    def change(self, *, snapshot: bool) -> service_pb2.WatchPoliciesResponse:
        change = service_pb2.PolicyChange(
            namespace=self.namespace,
            topic=self.topic,
            scope=events_pb2.SCOPE_LOCAL,
            exists=self.value is not None,
            version=position(self.number),
            previous_version="" if snapshot else position(self.previous),
            partition=self.partition,
            position=position(self.number),
        )
        if self.value is not None:
            change.policies.CopyFrom(policies_pb2.TopicPolicies(max_producer_per_topic=self.value))
        change.origin.actor = "somebody"
        return service_pb2.WatchPoliciesResponse(change=change)


def position(number: int) -> str:
    """String order is number order."""
    return f"{number:06d}"


class LogModel:
    """The logs, and their present documents."""

    def __init__(self, *namespaces: str) -> None:
        self.rows: dict[str, list[Row]] = {name: [] for name in namespaces}
        self.horizon: dict[str, int] = dict.fromkeys(namespaces, 0)
        """Rows up to here can't be resumed from."""
        self.resumed = 0
        """Streams that were resumed from a token."""

    def write(self, namespace: str, local: str, value: int | None) -> Row:
        """Sets or deletes the document of a topic."""
        topic = f"persistent://{namespace}/{local}"
        rows = self.rows[namespace]
        previous = max((row.number for row in rows if row.topic == topic), default=0)
        row = Row(len(rows) + 1, namespace, topic, value, previous)
        rows.append(row)
        return row

    def forget(self, namespace: str) -> None:
        """Moves the horizon to the end: every older token is out of range."""
        self.horizon[namespace] = len(self.rows[namespace])

    def documents(self) -> dict[str, int]:
        """What there is, by topic."""
        newest = {row.topic: row.value for rows in self.rows.values() for row in rows}
        return {topic: value for topic, value in newest.items() if value is not None}

    def stream(self, request: service_pb2.WatchPoliciesRequest) -> Iterator[service_pb2.WatchPoliciesResponse | None]:
        """The messages of a stream that is opened now; None when there is nothing to say for now.

        Raises:
            Refused: OUT_OF_RANGE.
        """
        parts = [self._part(name, request) for name in [*request.namespaces]]
        while True:
            quiet = True
            for part in parts:
                while (message := next(part)) is not None:
                    quiet = False
                    yield message
            if quiet:  # else a part that was asked first may have more by now
                yield None

    def _part(self, name: str, request: service_pb2.WatchPoliciesRequest) -> Iterator[service_pb2.WatchPoliciesResponse | None]:
        rows = self.rows[name]
        if name in request.resume:
            token = request.resume[name]
            if any(each and int(each) < self.horizon[name] for each in token.positions) or token.log != name:
                raise Refused(Refusal(Code.OUT_OF_RANGE, "The token is too old.", "TOKEN_TOO_OLD", {"namespace": name}))
            self.resumed += 1
            at = len(rows)
            for row in rows[:at]:
                mine = token.positions[row.partition] if row.partition < len(token.positions) else ""
                if position(row.number) > mine:
                    yield row.change(snapshot=False)
        else:
            newest = {row.topic: row for row in rows}
            at = len(rows)
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

    def _bookmark(self, name: str, at: int, kind: service_pb2.BookmarkKind.ValueType) -> service_pb2.WatchPoliciesResponse:
        token = service_pb2.WatchToken(log=name, positions=[position(at)] * PARTITIONS)
        return service_pb2.WatchPoliciesResponse(bookmark=service_pb2.Bookmark(namespace=name, kind=kind, token=token))
