"""Entries that were read and are kept unfolded: folded some at a time, while the view answers already.

The kept entries of a topic are folded as soon as a caller needs that topic (``core/reading/lazy_view``); a caller that needs all topics
waits until all are folded. What follows for a topic from its entries, a repair or a line in the log about an entry that can't be read, is
done once they are folded.

The history gets events in the order of the log. So behind the first entry that is kept, every event waits in a queue for it:

=============================  ====================================================================================================
first in the queue             what is done
=============================  ====================================================================================================
an event that was folded       the history gets it
an entry that is kept          it is folded, as the oldest of its topic, and perhaps some behind it; it is a folded event then
nothing                        all is folded; if the log has been read, the history is told that it has caught up
=============================  ====================================================================================================

An opening that ends before that has given the history less than it has read: its view is not continued (``Follower.may_be_continued``), and
the next opening gives the history the rest.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from ..checkpoints import Keeper
from ..core.fold.fold import FoldContext, Folded
from ..core.policies.events import Placed, Position
from ..core.reading.lazy_view import LazyView, UndecodedEntry
from ..core.reading.view import Head, View
from ..logs.change_log import NamespaceLog
from ..tasks import TaskSet
from .capacity import Share
from .listeners import Owner, Recorder, Taken

AT_A_TIME = 32
"""Entries, or events for the history, that are dealt with before other tasks get their turn: some two milliseconds."""
_ROOM = 4
"""Where there may be no room for all kept entries, this many times as many of them are folded as come."""
_EACH = 2
"""The most bytes that a document has per byte of its event."""
Step: TypeAlias = tuple[Placed, Head | None, Folded | None, Head | None]
"""A log entry, the head before it, what it did, and the head that it made; None: it made none."""


class LateEntries:
    """The entries that one opening keeps unfolded (``core/reading/lazy_view.LateSink``).

    Attributes:
        view: the view that keeps them.
        size: an upper estimate of the bytes that the documents of all entries kept so far may have.
    """

    def __init__(
        self,
        context: FoldContext,
        complete: Sequence[Position | None],
        fold: Callable[[Placed], Step],
        tell: Callable[[str, int], None],
        *,
        records: bool,
    ) -> None:
        """Begins without entries.

        Args:
            context: what the fold needs to know, ``joined_at`` included.
            complete: the position of each partition behind which nothing was compacted away.
            fold: folds an event into the view.
            tell: called with each topic that is folded, and how many of its entries could not be read.
            records: whether there is a recorder.
        """
        self.view = LazyView(context, complete, late=self)
        self.size = 0
        self._until = (context.joined_at or 0) - context.window_ms
        """Entries published after this, in milliseconds since 1970, are folded at once: brokers may still compute from them, so their keys
        are checked as soon as the log has been read (``View.check_all_seen``)."""
        self._fold = fold
        self._tell = tell
        self._records = records
        self._line: deque[UndecodedEntry | Taken] = deque()
        self._keeping = True
        self._problems = 0
        """How many entries of the topic that is being folded could not be read."""

    @property
    def over(self) -> bool:
        """Whether all entries are folded, and the history has got all events."""
        return not (self.view.unfolded or self._line)

    def take(self, entries: Iterable[Placed | UndecodedEntry], decoded: Callable[[Sequence[Placed]], None]) -> None:
        """Keeps the entries that may be kept; ``decoded`` takes the others, in order."""
        rest: list[Placed] = []
        keep, line = self.view.keep, self._line
        for entry in entries:
            if not isinstance(entry, UndecodedEntry):
                rest.append(entry)
            elif not self._keeping or entry.published_at > self._until:
                rest.append(entry.decode())
            else:
                if rest:
                    decoded(rest)
                    rest = []
                keep(entry)
                self.size += _EACH * entry.size
                if self._records:
                    line.append(entry)
        decoded(rest)

    def queue(self, events: Sequence[Taken]) -> bool:
        """Queues folded events for the history, if there is a queue. Returns whether it did; if not, the history may get them at once."""
        if not self._line:
            return False
        self._line.extend(events)
        return True

    def fold_some(self, most: int = AT_A_TIME) -> list[Taken]:
        """Folds some of the kept entries. Returns the events that the history is to get now."""
        if not self._records:
            self.view.fold_kept(most)
            return []
        told: list[Taken] = []
        line, left = self._line, most
        while line and len(told) < most:
            first = line[0]
            if isinstance(first, UndecodedEntry):
                if first.noted is None:
                    if left <= 0:
                        break
                    left -= self.view.fold_some(first.topic, left)  # the entry is the oldest of its topic
                assert first.noted is not None, "folded"
                told.append(first.noted)
            else:
                told.append(first)
            line.popleft()
        return told

    def stop_keeping(self) -> None:
        """Ends keeping: there may be no room for all of what is kept, so its real size has to be known."""
        self._keeping = False

    def fold_alongside(self, came: int) -> list[Taken]:
        """Folds a multiple of what came, if there may be no room for all. Returns the events that the history is to get now."""
        return [] if self._keeping else self.fold_some(_ROOM * came)

    def fold_rest_if_crowded(self) -> list[Taken]:
        """Folds the rest, once all has come, if there may be no room for it. Returns the events that the history is to get now."""
        told: list[Taken] = []
        while not self._keeping and not self.over:
            told += self.fold_some()
        return told

    def close(self) -> None:
        """Ends the reports of the view: all is folded, or the view is dropped."""
        self.view.leave()

    def take_late(self, entry: UndecodedEntry, placed: Placed) -> None:
        """Folds an entry that was kept (``LateSink``)."""
        placed, before, folded, change = self._fold(placed)
        self._problems += placed.problem != ""
        if self._records:
            entry.noted = placed, before, folded, change if change is not None else before

    def topic_folded(self, topic: str) -> None:
        """Reports a topic of which no entry is kept any more (``LateSink``)."""
        problems, self._problems = self._problems, 0
        self._tell(topic, problems)


class LateFolding(ABC):
    """The part of a follower that deals with entries that are kept unfolded."""

    view: View
    _owner: Owner[Any] | None
    share: Share
    _caught_up: bool
    _late_entries: LateEntries | None = None
    """What was read and is not folded yet; None: nothing."""
    keeper: Keeper | None
    """Makes checkpoints of the view once all is folded; None: there are none."""

    @property
    def has_late_entries(self) -> bool:
        """Whether there are entries that are not folded yet, or folded events that the recorder has not got."""
        return self._late_entries is not None

    @abstractmethod
    def _fold(self, placed: Placed) -> Step: ...

    @abstractmethod
    def _take(self, owner: Owner[Any], events: Sequence[Placed]) -> None: ...

    @abstractmethod
    def _report(self, report: Callable[[Owner[Any]], None]) -> None: ...

    @abstractmethod
    def _record(self, note: Callable[[Recorder], None]) -> None: ...

    @abstractmethod
    def _count(self, owner: Owner[Any]) -> None: ...

    def _take_undecoded(self, owner: Owner[Any], late: LateEntries, entries: Sequence[Placed | UndecodedEntry]) -> None:
        late.take(entries, partial(self._take, owner))
        if not self.share.has_room_for(len(self.view), late.size):
            late.stop_keeping()
        self._record_late(owner, late.fold_alongside(len(entries)))

    def fold_late(self) -> bool:
        """Folds some of the kept entries, as long as there is an owner. Returns whether there are more."""
        if (late := self._late_entries) is not None:
            self._report(lambda owner: self._record_late(owner, late.fold_some()))
        return self._late_entries is not None and self._owner is not None

    def _record_late(self, owner: Owner[Any], told: Sequence[Taken]) -> None:
        if told:
            self._record(lambda recorder: recorder.noted(told))
        self._count(owner)
        if self._caught_up and self._late_entries is not None and self._late_entries.over:
            self._late_entries.close()
            self._late_entries = None
            self._record(lambda recorder: recorder.caught_up())

    def _fold_one_late(self, placed: Placed) -> Step:
        """Folds an entry that was kept."""
        step = self._fold(placed)
        if self.keeper is not None:
            self.keeper.took_late(step[0])
        return step


class FoldsLate(Protocol):
    """A follower, as far as ``LateFolder`` needs it."""

    @property
    def has_late_entries(self) -> bool:
        """Whether there are entries that are not folded yet."""

    def fold_late(self) -> bool:
        """Folds some of them. Returns whether there are more."""


S = TypeVar("S", bound="HasFollower")


class HasFollower(Protocol):
    """A view that answers (``life.Serving``), as far as ``LateFolder`` needs it."""

    @property
    def follower(self) -> FoldsLate:
        """The follower whose view it is."""


class LateFolder:
    """Folds the kept entries of a namespace's view in a task, while the view answers."""

    def __init__(self, name: str) -> None:
        """``name``: ``tenant/namespace``."""
        self._name = name
        self._tasks = TaskSet(name)
        self._over = asyncio.Event()
        self._over.set()

    @property
    def busy(self) -> bool:
        """Whether there are entries left to fold."""
        return not self._over.is_set()

    def serve(self, follower: FoldsLate, done: Callable[[], None]) -> None:
        """Begins to fold for a view that answers. ``done`` is called when all is folded, unless that is so already."""
        if follower.has_late_entries:
            self._over.clear()
            self._tasks.begin(self._run(follower, done), "applying what was read")

    async def folded(self, ready: Callable[[], Awaitable[S]]) -> S:
        """Returns the view that answers, once all is folded and ``done`` has been called.

        Raises:
            PolicyError: as ``ready`` does.
        """
        serving = await ready()
        if serving.follower.has_late_entries or self.busy:  # the task may be yet to call ``done``
            await self._over.wait()
            serving = await ready()
        return serving

    async def close(self) -> None:
        """Ends the task; callers of ``folded`` go on."""
        await self._tasks.close(cancel=True)
        self._over.set()

    async def _run(self, follower: FoldsLate, done: Callable[[], None]) -> None:
        try:
            more = True
            while more:
                more = follower.fold_late()
                await asyncio.sleep(0)
            done()
        finally:
            self._over.set()


def complete_after(log: NamespaceLog) -> list[Position | None]:
    """Returns the position of each partition behind which nothing was compacted away; None: it is not known."""
    return [log.complete_after(partition) for partition in range(log.partitions)]
