"""Decides what one opening of a namespace's log adds to the history: the new events, their times, and where events are missing.

A log that is opened anew is read from its beginning, as far as that was not compacted away. Positions show which events the history already
has. Between the last recorded position and the end of the compacted part (``NamespaceLog.complete_after``) events may be missing: unless
each event that is read there provably follows the one before, the recorder records a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.policies.events import ABSENT, Placed, Position
from ..logs.change_log import NamespaceLog
from .entries import Extent, FoldedEntry, Followed, Gap, GapReason, Noted, Stream
from .writer import HistoryWriter


@dataclass(slots=True)
class _UncertainRange:
    """The part of one partition in which events may be missing: from the last recorded position to the end of the compacted part."""

    at: Position
    """The position of the last event that was recorded or read."""
    end: Position | None
    """None: where it ends is not known."""
    proven: bool = True
    """Whether no event is missing up to ``at``."""

    @property
    def complete(self) -> bool:
        """Whether it is proven that no event of the range is missing."""
        return self.proven and self.end is not None and self.at >= self.end


class Recorder:
    """Records what is read during one opening of a namespace's log."""

    def __init__(self, writer: HistoryWriter, namespace: str, extent: Extent, now: Callable[[], int]) -> None:
        """Creates a recorder that has no log yet.

        ``extent``: how far the history goes; the recorder keeps it up to date, and calls its listeners.
        """
        self._writer = writer
        self.namespace = namespace
        self._extent = extent
        self._now = now
        self._log: NamespaceLog | None = None
        self._uncertain: dict[int, _UncertainRange] = {}
        self._missing_until = 0
        self._missing: list[tuple[Stream, Position]] = []
        self._known = {stream.log for stream in extent.streams.values() if stream.position}
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
        self._uncertain = {}
        if self._extent.overrun is not None and not self._extent.overrun.holes:
            self._extent.overrun = None  # a former recorder failed, and this one records what is missing
        for partition in range(log.partitions):
            recorded = self._stream(partition).position
            end = log.complete_after(partition)
            if end is None or recorded < end:
                self._uncertain[partition] = _UncertainRange(recorded, end)

    def noted(self, events: Sequence[FoldedEntry]) -> None:
        """Records events that were folded, in order. If that fails, the history has a gap until the log is opened again and read anew."""
        try:
            self._note(events)
        except Exception:
            assert self._log is not None, "opened"
            since = min(self._stream(partition).at for partition in range(self._log.partitions))
            self._extent.overrun = self._extent.overrun or Gap(self.namespace, since, 0, GapReason.OVERRUN)
            raise

    def _note(self, events: Sequence[FoldedEntry]) -> None:
        """The event loop waits for this, so it does little for each event."""
        now, log = self._now(), self._log
        assert log is not None, "opened"
        reached: dict[Stream, tuple[Position, int]] = {}
        noted: list[Noted] = []
        for placed, before, folded, after in events:
            stream = self._stream(placed.partition)
            position, at = reached.get(stream) or (stream.position, stream.at)
            if placed.position <= position:
                continue
            at = max(at, min(placed.published_at, now))
            uncertain = self._uncertain.get(placed.partition)
            if uncertain is not None:
                if uncertain.end is not None and placed.position > uncertain.end:
                    self._leave(placed.partition, self._latest_before(placed, at, now))
                else:
                    uncertain.proven = uncertain.proven and log.follows(uncertain.at, placed.position)
                    uncertain.at = placed.position
            if folded is None and not placed.problem:
                continue  # neither an event nor unreadable: nothing to record
            reached[stream] = placed.position, at
            document_before = None if before is None else before.document
            document_after = None if after is None else after.document
            version = ABSENT if after is None else after.version
            noted.append(Noted(stream, placed, at, folded, document_before, document_after, version, log.cluster))
        if noted:
            self._hand_over(noted)
            for notify in self._extent.listeners:
                notify()

    def _latest_before(self, placed: Placed, at: int, now: int) -> int:
        """Returns until when an event that is missing before this one may have happened, in milliseconds since 1970.

        As a rule that is the time of this one. But an event that was replicated has the time of its cluster, however late it came; and one
        that is older than the time without a server was written by a clock that is slow.
        """
        replicated = placed.event is not None and placed.event.replicated
        return now if replicated or at <= (self._followed_until or 0) else at

    def _hand_over(self, noted: Sequence[Noted]) -> None:
        """Hands events to the writer. Those for which it has no room are a gap, which is recorded once it takes events again."""
        extent = self._extent
        count = self._writer.note(noted)
        taken, refused = noted[:count], noted[count:]
        if taken:
            self._tell_overrun(taken[0].at)
        _advance(taken)
        if refused:
            times = [each.at for each in refused]
            overrun = extent.overrun or Gap(self.namespace, refused[0].stream.at or times[0], 0, GapReason.OVERRUN)
            holes = dict(overrun.holes) | {each.stream: each.placed.position for each in refused}
            since = min(overrun.since or 0, *times)
            extent.overrun = overrun._replace(since=since, until=max(overrun.until, *times), holes=tuple(holes.items()))
        _advance(refused)

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
            self._writer.tell(Gap(self.namespace, since, until, reason, tuple(holes)))
            self._missing_until, self._missing = 0, []
        self._following = True
        self.tick()

    def tick(self) -> None:
        """Records that the log is followed until now, if it is; called from time to time.

        A log to which nobody else appends, and of which nothing is recorded, leaves no trace: callers may name any number of namespaces.
        """
        if self._following and self._log is not None and (self._log.shared or not self._extent.empty):
            now = self._now()
            self._extent.followed_until = now
            self._writer.tell(Followed(self.namespace, now))

    def closed(self) -> None:
        """Notes that the log is not followed any more."""
        self.tick()
        self._tell_overrun(self._now())
        self._following = False

    def _leave(self, partition: int, at: int) -> None:
        """Ends the uncertain range of a partition, and notes where events are missing if it is not complete."""
        uncertain = self._uncertain.pop(partition)
        if not uncertain.complete:
            self._missing_until = max(self._missing_until, at)
            self._missing.append((self._stream(partition), max(uncertain.at, uncertain.end or "")))

    def _tell_overrun(self, until: int) -> None:
        overrun, self._extent.overrun = self._extent.overrun, None
        if overrun is not None:  # each partition has its own time
            self._writer.tell(overrun._replace(until=max(until, overrun.until)))

    def _replaced(self) -> bool:
        assert self._log is not None, "opened"
        return bool(self._known) and self._log.identity not in self._known

    def _stream(self, partition: int) -> Stream:
        assert self._log is not None, "opened"
        key = self._log.identity, partition
        found = self._extent.streams.get(key)
        if found is None:
            found = self._extent.streams[key] = Stream(self.namespace, *key)
        return found


def _advance(noted: Sequence[Noted]) -> None:
    for each in noted:
        each.stream.position, each.stream.at = each.placed.position, each.at
