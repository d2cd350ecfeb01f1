"""The scribe: decides what one opening of a namespace's log adds to the history: the new events, their times, and where events are missing.

A log that is opened anew is read from its beginning, as far as that was not compacted away. Positions show which events the history already
has. Between the last recorded position and the end of the compacted part (``NamespaceLog.complete_after``) events may be missing: unless
each event that is read there provably follows the one before, the scribe records a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from ..core.policies.events import ABSENT, Placed, Position
from .entries import Followed, Gap, GapReason, Marks, Noted, SetBack, Stream, Taken


class HistorySink(Protocol):
    """Takes what the scribe records; in production the ``Writer``."""

    def note(self, noted: Sequence[Noted]) -> int:
        """Takes events, in order. Returns how many of the first it took; once too much waits to be written, it takes no further ones."""

    def tell(self, what: Gap | Followed | SetBack) -> None:
        """Takes a rare item, however much waits to be written."""


class Log(Protocol):
    """What a scribe needs of an opened log (``logs.change_log.NamespaceLog``)."""

    @property
    def identity(self) -> str:
        """Identifies the log permanently."""

    @property
    def cluster(self) -> str:
        """The name of the cluster for which the log's LOCAL events are."""

    @property
    def partitions(self) -> int:
        """The number of partitions."""

    @property
    def shared(self) -> bool:
        """Whether others may append to the log."""

    def follows(self, earlier: Position, later: Position) -> bool:
        """Whether it is proven that no event stands between two positions."""

    def complete_after(self, partition: int) -> Position | None:
        """The position behind which nothing was compacted away; None: it is not known."""


class _UncertainRange:
    """The part of one partition in which events may be missing: from the last recorded position to the end of the compacted part."""

    __slots__ = ("_at", "_end", "_log", "_proven")

    def __init__(self, log: Log, recorded: Position, end: Position | None) -> None:
        self._log = log
        self._at = recorded
        """The position of the last event that was recorded or read."""
        self._end = end
        self._proven = True
        """Whether no event is missing up to ``_at``."""

    def reads(self, position: Position) -> bool:
        """Takes the next event that was not recorded yet. Returns whether it stands behind the range."""
        if self._end is not None and position > self._end:
            return True
        self._proven = self._proven and self._log.follows(self._at, position)
        self._at = position
        return False

    @property
    def last(self) -> Position:
        """The position up to which events may be missing, as far as the range was read."""
        return max(self._at, self._end or "")

    @property
    def complete(self) -> bool:
        """Whether it is proven that no event of the range is missing."""
        return self._proven and self._end is not None and self._at >= self._end


class Scribe:
    """Records what is read during one opening of a namespace's log."""

    def __init__(
        self,
        sink: HistorySink,
        namespace: str,
        marks: Marks,
        now: Callable[[], int],
        listeners: Callable[[], Iterable[Callable[[], None]]] = tuple,
    ) -> None:
        """Creates a scribe that has no log yet.

        Args:
            sink: takes what is recorded.
            namespace: ``tenant/namespace``.
            marks: how far the history goes; the scribe keeps them up to date.
            now: returns milliseconds since 1970.
            listeners: returns the callbacks that are called when there are new events.
        """
        self._sink = sink
        self.namespace = namespace
        self._marks = marks
        self._now = now
        self._listeners = listeners
        self._log: Log | None = None
        self._identity = ""
        self._streams: dict[int, Stream] = {}
        self._uncertain: dict[int, _UncertainRange] = {}
        self._missing_until = 0
        self._missing: list[tuple[Stream, Position]] = []
        """Where events are missing: streams, each with the position up to which they are."""
        self._known = {log for log, _ in marks.streams}
        """The identities of the logs that were recorded before this opening."""
        self._followed_until = marks.followed_until
        """When the log was last followed before this opening, in milliseconds since 1970; None: never."""
        self._following = False

    @property
    def following(self) -> bool:
        """Whether the log was read to the end that it had when it was opened, and is followed since."""
        return self._following

    def knows(self, identity: str, positions: Sequence[Position]) -> bool:
        """Whether all events up to these positions of a log, one for each partition, are recorded; "": before the first event."""
        streams = (self._marks.streams.get((identity, partition)) for partition in range(len(positions)))
        return all(not at or (stream is not None and at <= stream.position) for at, stream in zip(positions, streams, strict=True))

    def opened(self, log: Log) -> None:
        """Takes the open log, before any event of it is folded."""
        self._log = log
        self._uncertain = {}
        for partition in range(log.partitions):
            recorded = self._stream(partition).position
            end = log.complete_after(partition)
            if end is None or recorded < end:
                self._uncertain[partition] = _UncertainRange(log, recorded, end)

    def noted(self, events: Sequence[Taken]) -> None:
        """Records events that were folded, in order. The event loop waits for this, so it does little for each event."""
        now, log = self._now(), self._log
        assert log is not None, "opened"
        partition, stream = -1, None
        began: dict[Stream, tuple[Position, int]] = {}
        noted: list[Noted] = []
        try:
            for placed, before, folded, after in events:
                if stream is None or placed.partition != partition:
                    partition = placed.partition
                    stream = self._stream(partition)
                    set_back(self._sink, stream, now)
                    began.setdefault(stream, (stream.position, stream.at))
                position = placed.position
                if position <= stream.position:
                    continue
                at = max(stream.at, min(placed.published_at, now))
                if self._uncertain:
                    self._pass(partition, position, self._latest_before(placed, at, now))
                if folded is None and not placed.problem:
                    continue  # neither an event nor unreadable: nothing to record
                noted.append(
                    Noted(
                        stream,
                        placed,
                        at,
                        folded,
                        None if before is None else before.document,
                        None if after is None else after.document,
                        ABSENT if after is None else after.version,
                        log.cluster,
                    )
                )
                stream.position, stream.at = position, at
        finally:  # events before a failure are recorded, since their streams have been advanced past them
            if noted:
                self._hand_over(noted, began)
                for wake in self._listeners():
                    wake()

    def _latest_before(self, placed: Placed, at: int, now: int) -> int:
        """Returns until when an event that is missing before this one may have happened, in milliseconds since 1970.

        As a rule that is the time of this one. But an event that was replicated has the time of its cluster, however late it came; and one
        that is older than the time without a server was written by a clock that is slow.
        """
        replicated = placed.event is not None and placed.event.replicated
        return now if replicated or at <= (self._followed_until or 0) else at

    def _pass(self, partition: int, position: Position, at: int) -> None:
        """Notes that an event of a partition was read, which may end the partition's uncertain range.

        Args:
            partition: the partition.
            position: the event's position.
            at: until when an event that is missing before it may have happened, in milliseconds since 1970.
        """
        uncertain = self._uncertain.get(partition)
        if uncertain is not None and uncertain.reads(position):
            self._leave(partition, at)

    def _hand_over(self, noted: list[Noted], began: Mapping[Stream, tuple[Position, int]]) -> None:
        """Hands events to the sink. If that raises, nothing was recorded, and the streams are put back.

        Args:
            noted: the events.
            began: for each of their streams, the position and time of its last entry before these events.
        """
        marks = self._marks
        try:
            taken = self._sink.note(noted)
        except BaseException:
            for stream, (position, at) in began.items():
                stream.position, stream.at = position, at
            raise
        for stream in began:
            if stream.position:
                marks.streams.setdefault((stream.log, stream.partition), stream)
        if taken and marks.overrun is not None:
            self._tell_overrun(noted[0].at)
        if taken == len(noted):
            return
        first = noted[taken]
        if marks.overrun is None:
            last = next((each.at for each in reversed(noted[:taken]) if each.stream is first.stream), began[first.stream][1])
            marks.overrun = last or first.at
        for each in noted[taken:]:
            marks.overrun, marks.overrun_until = min(marks.overrun, each.at), max(marks.overrun_until, each.at)
            marks.refused[each.placed.partition] = each.stream, each.placed.position

    def caught_up(self) -> None:
        """Notes that everything that was in the log when it was opened has been folded, and records the gap, if events are missing."""
        now = self._now()
        for partition in list(self._uncertain):
            self._leave(partition, now)
        if self._replaced():
            self._missing_until = self._missing_until or now
        if self._missing_until:
            reason, holes = GapReason.COMPACTED, self._missing
            if self._replaced():
                reason, holes = GapReason.LOG_REPLACED, [(self._stream(0), ""), *holes]
            since, until = self._followed_until, self._missing_until
            if since is not None and since >= until:  # the clock was set back while no server followed the log
                since, until = min(since, now), now + 1
            self._sink.tell(Gap(self.namespace, since, until, reason, tuple(holes)))
            self._missing_until, self._missing = 0, []
        self._following = True
        self.tick()

    def tick(self) -> None:
        """Records that the log is followed until now, if it is; called from time to time.

        A log to which nobody else appends, and of which nothing is recorded, leaves no trace: callers may name any number of namespaces.
        """
        if self._following and self._log is not None and (self._log.shared or not self._marks.empty):
            now = self._now()
            self._marks.followed_until = now
            self._sink.tell(Followed(self.namespace, now))

    def closed(self) -> None:
        """Notes that the log is not followed any more."""
        self.tick()
        if self._marks.overrun is not None:
            self._tell_overrun(self._now())
        self._following = False

    def _leave(self, partition: int, at: int) -> None:
        """Ends the uncertain range of a partition, and notes where events are missing if it is not complete."""
        uncertain = self._uncertain.pop(partition)
        if not uncertain.complete:
            self._missing_until = max(self._missing_until, at)
            self._missing.append((self._stream(partition), uncertain.last))

    def _tell_overrun(self, until: int) -> None:
        marks = self._marks
        until = max(until, marks.overrun_until)  # each partition has its own time
        self._sink.tell(Gap(self.namespace, marks.overrun, until, GapReason.OVERRUN, tuple(marks.refused.values())))
        marks.overrun, marks.overrun_until = None, 0
        marks.refused.clear()

    def _replaced(self) -> bool:
        """Whether the history knows logs of this namespace, but not this one."""
        return bool(self._known) and self._identity not in self._known

    def _stream(self, partition: int) -> Stream:
        log = self._log
        assert log is not None, "opened"
        identity = log.identity
        if identity != self._identity:
            self._identity = identity
            self._streams = {}
        stream = self._streams.get(partition)
        if stream is None:
            known = self._marks.streams.get((identity, partition))
            stream = self._streams[partition] = known or Stream(self.namespace, identity, partition)
        return stream


def set_back(sink: HistorySink, stream: Stream, now: int) -> None:
    """If the clock went back behind the time of the stream's last entry, has the later times corrected to ``now`` (``file.set_back``)."""
    if stream.at > now:
        stream.at = now
        sink.tell(SetBack(stream, now))
