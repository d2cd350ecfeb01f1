"""What one opening of a namespace's log tells the history: which events are new to it, at what time they stand, and where some are missing.

A log that is opened anew is read from its beginning, as far as that was not compacted away. What the history has already is known by its
position. Between that position and the end of the compacted part (``NamespaceLog.complete_after``) events may be missing: unless each
event that is read there follows the one before without a gap, the history says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from ..core.policies.events import ABSENT, Position
from .entries import Followed, Gap, GapReason, Marks, Noted, SetBack, Stream, Taken


class Book(Protocol):
    """Where it is written."""

    def note(self, noted: Sequence[Noted]) -> int:
        """Takes events. Returns how many of the first it took: none behind one for which too much waits already."""

    def tell(self, what: Gap | Followed | SetBack) -> None:
        """Takes what is said rarely."""


class Log(Protocol):
    """What is asked of an opened log (``logs.change_log.NamespaceLog``)."""

    @property
    def identity(self) -> str:
        """Names the log for good."""

    @property
    def partitions(self) -> int:
        """How many it has."""

    def follows(self, earlier: Position, later: Position) -> bool:
        """Whether it is proven that nothing stands between two positions."""

    def complete_after(self, partition: int) -> Position | None:
        """Behind which position nothing was compacted away; None: it is not known."""


class _Passage:
    """The part of one partition in which events may be missing."""

    __slots__ = ("_at", "_end", "_log", "_proven")

    def __init__(self, log: Log, recorded: Position, end: Position | None) -> None:
        self._log = log
        self._at = recorded
        """The last event that was recorded or read."""
        self._end = end
        self._proven = True
        """Whether nothing is missing up to there."""

    def reads(self, position: Position) -> bool:
        """The next event that was not recorded yet. Returns whether it stands behind the passage."""
        if self._end is not None and position > self._end:
            return True
        self._proven = self._proven and self._log.follows(self._at, position)
        self._at = position
        return False

    @property
    def last(self) -> Position:
        """Where it ends, as far as it was read."""
        return max(self._at, self._end or "")

    @property
    def complete(self) -> bool:
        """Whether it is proven that nothing is missing."""
        return self._proven and self._end is not None and self._at >= self._end


class Scribe:
    """Writes down one opening of a namespace's log."""

    def __init__(
        self,
        book: Book,
        namespace: str,
        marks: Marks,
        now: Callable[[], int],
        listeners: Callable[[], Iterable[Callable[[], None]]] = tuple,
    ) -> None:
        """Begins without a log.

        Args:
            book: where it is written.
            namespace: ``tenant/namespace``.
            marks: how far the history goes; kept up to date here.
            now: milliseconds since 1970.
            listeners: who is told of new events.
        """
        self._book = book
        self.namespace = namespace
        self._marks = marks
        self._now = now
        self._listeners = listeners
        self._log: Log | None = None
        self._identity = ""
        self._streams: dict[int, Stream] = {}
        self._passages: dict[int, _Passage] = {}
        self._missing_until = 0
        self._missing: list[tuple[Stream, Position]] = []
        """Where: streams, and up to which position."""
        self._known = {log for log, _ in marks.streams}
        """The logs that were recorded before this opening."""
        self._followed_until = marks.followed_until
        """When the log was last followed before this opening."""
        self._following = False

    @property
    def following(self) -> bool:
        """Whether the log is read to its present end, and followed."""
        return self._following

    def knows(self, identity: str, positions: Sequence[Position]) -> bool:
        """Whether all events up to some positions of a log, by partition, are recorded; "" is before the first one."""
        streams = (self._marks.streams.get((identity, partition)) for partition in range(len(positions)))
        return all(not at or (stream is not None and at <= stream.position) for at, stream in zip(positions, streams, strict=True))

    def opened(self, log: Log) -> None:
        """The log is open; nothing of it was folded yet."""
        self._log = log
        self._passages = {}
        for partition in range(log.partitions):
            recorded = self._stream(partition).position
            end = log.complete_after(partition)
            if end is None or recorded < end:
                self._passages[partition] = _Passage(log, recorded, end)

    def noted(self, events: Sequence[Taken]) -> None:
        """Events were folded, one after the other. Costs little for each, because the loop waits for it."""
        now = self._now()
        partition, stream = -1, None
        began: dict[Stream, tuple[Position, int]] = {}
        noted: list[Noted] = []
        try:
            for placed, before, folded, after in events:
                if stream is None or placed.partition != partition:
                    partition = placed.partition
                    stream = self._stream(partition)
                    set_back(self._book, stream, now)
                    began.setdefault(stream, (stream.position, stream.at))
                position = placed.position
                if position <= stream.position:
                    continue
                at = max(stream.at, min(placed.published_at, now))
                if self._passages:
                    self._pass(partition, position, at)
                if folded is None and not placed.problem:
                    continue  # none of ours
                noted.append(
                    Noted(
                        stream,
                        placed,
                        at,
                        folded,
                        None if before is None else before.document,
                        None if after is None else after.document,
                        ABSENT if after is None else after.version,
                    )
                )
                stream.position, stream.at = position, at
        finally:  # what stands before a failure is recorded: its streams have come as far
            if noted:
                self._hand_over(noted, began)
                for wake in self._listeners():
                    wake()

    def _pass(self, partition: int, position: Position, at: int) -> None:
        """An event is read of a partition in which some may be missing."""
        passage = self._passages.get(partition)
        if passage is not None and passage.reads(position):
            self._leave(partition, at)

    def _hand_over(self, noted: list[Noted], began: Mapping[Stream, tuple[Position, int]]) -> None:
        """Has events written down. ``began``: the last entry of their streams before them, and its time. Who fails has written nothing."""
        marks = self._marks
        try:
            taken = self._book.note(noted)
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
            marks.refused[each.placed.partition] = each.stream, each.placed.position

    def caught_up(self) -> None:
        """What was in the log when it was opened has been folded."""
        now = self._now()
        for partition in list(self._passages):
            self._leave(partition, now)
        if self._replaced():
            self._missing_until = self._missing_until or now
        if self._missing_until:
            reason, holes = GapReason.COMPACTED, self._missing
            if self._replaced():
                reason, holes = GapReason.LOG_REPLACED, [(self._stream(0), ""), *holes]
            self._book.tell(Gap(self.namespace, self._followed_until, self._missing_until, reason, tuple(holes)))
            self._missing_until, self._missing = 0, []
        self._following = True
        self.tick()

    def tick(self) -> None:
        """Some time has passed; if the log is followed, the history says so."""
        if self._following:
            now = self._now()
            self._marks.followed_until = now
            self._book.tell(Followed(self.namespace, now))

    def closed(self) -> None:
        """The log is not followed any more."""
        self.tick()
        if self._marks.overrun is not None:
            self._tell_overrun(self._now())
        self._following = False

    def _leave(self, partition: int, at: int) -> None:
        """Events behind a passage are complete."""
        passage = self._passages.pop(partition)
        if not passage.complete:
            self._missing_until = max(self._missing_until, at)
            self._missing.append((self._stream(partition), passage.last))

    def _tell_overrun(self, until: int) -> None:
        self._book.tell(Gap(self.namespace, self._marks.overrun, until, GapReason.OVERRUN, tuple(self._marks.refused.values())))
        self._marks.overrun = None
        self._marks.refused.clear()

    def _replaced(self) -> bool:
        """Whether the history knows another log of this namespace, and not this one."""
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


def set_back(book: Book, stream: Stream, now: int) -> None:
    """Has what was recorded with a time of the future told for what it is, if the clock went back."""
    if stream.at > now:
        stream.at = now
        book.tell(SetBack(stream, now))
