"""Decides what one opening of a namespace's log adds to the history: the new events, their times, and where events are missing.

A log that is opened anew is read from its beginning, as far as that was not compacted away. Positions show which events the history already
has. Between the last recorded position and the end of the compacted part (``NamespaceLog.complete_after``) events may be missing: unless
each event that is read there provably follows the one before, the recorder records a gap. It does so before it records the event behind
the gap, for the process may be killed before the log was read to its end, and the next opening continues behind what is recorded. While
the end of the compacted part is not known, the gap is told again with each such event, and extends the one in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.policies.events import ABSENT, Placed, Position
from ..logs.change_log import NamespaceLog
from .entries import Extent, FoldedEntry, Gap, GapReason, Noted, Stream
from .writer import HistoryWriter


@dataclass(slots=True)
class _UncertainRange:
    """The part of one partition in which events may be missing: from the last recorded position to the end of the compacted part."""

    at: Position
    """The position of the last event of the range that was recorded or read."""
    end: Position | None
    """None: where it ends is not known."""
    told: bool = False
    """Whether a gap was recorded that covers all of the range."""

    @property
    def complete(self) -> bool:
        """Whether there is nothing more to tell of the range."""
        return self.told or (self.end is not None and self.at >= self.end)


class Recorder:
    """Records what is read during one opening of a namespace's log."""

    def __init__(self, writer: HistoryWriter, namespace: str, extent: Extent, now: Callable[[], int]) -> None:
        """Creates a recorder that has no log yet.

        ``extent``: how far the history goes; the recorder keeps it up to date, and calls its listeners. ``now``: returns milliseconds since
        1970.
        """
        self._writer = writer
        self.namespace = namespace
        self._extent = extent
        self._now = now
        self._log: NamespaceLog | None = None
        self._uncertain: dict[int, _UncertainRange] = {}
        self._known = {stream.log for stream in extent.streams.values() if stream.position}
        """The logs of which events are recorded; empty: there are none, or it has been told whether this log replaces them."""
        self._reason = GapReason.COMPACTED
        self._followed_until = extent.followed_until
        """When the log was last followed before this opening, in milliseconds since 1970; None: never."""
        self._following = False
        """Whether the log was read to the end that it had when it was opened, and is followed since."""

    def knows(self, identity: str, positions: Sequence[Position]) -> bool:
        """Whether all events up to these positions of a log, one for each partition, are recorded; "": before the first event."""
        streams = (self._extent.streams.get((identity, partition)) for partition in range(len(positions)))
        return all(not at or (stream is not None and at <= stream.position) for at, stream in zip(positions, streams, strict=True))

    def opened(self, log: NamespaceLog) -> None:
        """Takes the open log, before any event of it is folded."""
        self._log = log
        for partition in range(log.partitions):
            recorded = self._stream(partition).position
            end = log.complete_after(partition)
            if end is None or recorded < end:
                self._uncertain[partition] = _UncertainRange(recorded, end)

    def noted(self, events: Sequence[FoldedEntry]) -> None:
        """Records events that were folded, in order. The event loop waits for this, so it does little for each event."""
        now, log = self._now(), self._log
        assert log is not None, "opened"
        noted: list[Noted] = []
        try:
            for placed, before, folded, after in events:
                stream = self._stream(placed.partition)
                if placed.position <= stream.position:
                    continue
                if self._uncertain or self._known:
                    self._tell_before(placed, stream, log)
                if folded is None and not placed.problem:
                    continue  # neither an event nor unreadable: nothing to record
                stream.position, stream.at = placed.position, max(stream.at, min(placed.published_at, now))
                document_before = None if before is None else before.document
                document_after = None if after is None else after.document
                version = ABSENT if after is None else after.version
                noted.append(Noted(stream, placed, stream.at, folded, document_before, document_after, version, log.cluster))
        finally:
            if noted:
                self._writer.note(noted)
                for notify in self._extent.listeners:
                    notify()

    def caught_up(self) -> None:
        """Notes that everything that was in the log when it was opened has been folded, and records the gap, if events are missing."""
        left = [(number, each.end or each.at) for number, each in self._uncertain.items() if not each.complete]
        self._tell([(self._stream(number), position) for number, position in left])
        self._uncertain, self._following = {}, True
        self.tick()

    def _tell_before(self, placed: Placed, stream: Stream, log: NamespaceLog) -> None:
        """Records a gap before an event that may not be the next one of its partition, or that is the first one of another log."""
        holes = []
        uncertain = self._uncertain.get(placed.partition)
        if uncertain is not None and not uncertain.complete:
            if not log.follows(uncertain.at, placed.position):
                holes.append((stream, uncertain.end or placed.position))
                uncertain.told = uncertain.end is not None
            uncertain.at = placed.position
        self._tell(holes)

    def _tell(self, holes: list[tuple[Stream, Position]]) -> None:
        """Records a gap up to now in these streams, up to these positions, if there are any, or if the log replaces another one."""
        assert self._log is not None, "opened"
        if self._known and self._log.identity not in self._known:
            self._reason, holes = GapReason.LOG_REPLACED, [(self._stream(0), ""), *holes]
        self._known = set()
        if holes:
            now, since = self._now(), self._followed_until
            since = None if since is None else min(since, now - 1)  # the clock may have been set back meanwhile
            self._writer.tell(Gap(self.namespace, since, now, self._reason, tuple(holes)))

    def tick(self) -> None:
        """Records that the log is followed until now, if it is; called from time to time.

        A log to which nobody else appends, and of which nothing is recorded, leaves no trace: callers may name any number of namespaces.
        """
        if self._following and self._log is not None and (self._log.shared or not self._extent.empty):
            self._extent.followed_until = now = self._now()
            self._writer.followed(self.namespace, now)

    def closed(self) -> None:
        """Notes that the log is not followed any more."""
        self.tick()
        self._following = False

    def _stream(self, partition: int) -> Stream:
        assert self._log is not None, "opened"
        key = self._log.identity, partition
        found = self._extent.streams.get(key)
        if found is None:
            found = self._extent.streams[key] = Stream(self.namespace, *key)
        return found
