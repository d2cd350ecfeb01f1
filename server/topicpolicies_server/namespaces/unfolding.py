"""What was read of a log and is folded behind the first answers: kept by an opening, folded some at a time while its view answers.

Whoever asks about a topic has its entries folded then and there (``core/reading/unfolded``); whoever asks about all of them waits until all
are. What is due for a topic once it is folded, a repair or a line about an entry that can't be read, comes then.

The history is told in the order of the log. So behind the first entry that is kept everything stands in line for it:

=============================  ====================================================================================================
what stands first in the line  what is done
=============================  ====================================================================================================
an event that was folded       the history is told of it
an entry that is kept          it is folded, as the oldest of its topic, and perhaps some behind it; then it is an event that was folded
nothing                        all is folded; if the log is read, the history is told that it has caught up
=============================  ====================================================================================================

An opening that ends before that has told the history less than it has read: nobody goes on from its view (``Follower.may_be_continued``),
and the next opening tells the rest.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast

from ..checkpoints import Keeper
from ..core.fold.fold import FoldContext, Folded
from ..core.policies.events import Placed, Position
from ..core.reading.unfolded import Sealed, Unfolded
from ..core.reading.view import Head, View
from ..logs.change_log import NamespaceLog
from ..tasks import Owned
from .capacity import Share
from .listeners import Owner, Recorder, Taken

if TYPE_CHECKING:
    from .follower import Follower

AT_A_TIME = 32
"""So many entries, or events for the history, are dealt with before others have their turn: some two milliseconds."""
_ROOM = 4
"""So many times what comes is folded of what is kept where there may be no room for all."""
_EACH = 2
"""A document has at most so many times the bytes of its event."""
Step: TypeAlias = tuple[Placed, Head | None, Folded | None, Head | None]
"""An event that was folded, the head before it, what it did, and the head that it made; None: it made none."""


class Unfolding:
    """What one opening has kept (``core/reading/unfolded.Late``).

    Attributes:
        view: keeps it.
        size: bytes that were kept, roughly what their documents have at most.
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
        """Nothing is kept.

        Args:
            context: what the fold needs to know, ``joined_at`` among it.
            complete: behind which position of each partition nothing was compacted away.
            fold: hands an event to the view.
            tell: told of each topic that is folded, and how many of its entries could not be read.
            records: whether the history is told.
        """
        self.view = Unfolded(context, complete, late=self)
        self.size = 0
        self._until = (context.joined_at or 0) - context.window_ms
        """What is published later may be looked at when the log is read: something may be missing that brokers compute from."""
        self._fold = fold
        self._tell = tell
        self._records = records
        self._line: deque[Sealed | Taken] = deque()
        self._keeping = True
        self._problems = 0
        """Entries of the topic that is folded now that could not be read."""

    @property
    def over(self) -> bool:
        """Whether all is folded, and told."""
        return not (self.view.unfolded or self._line)

    def take(self, entries: Iterable[Placed | Sealed], decoded: Callable[[Sequence[Placed]], None]) -> None:
        """Keeps what may be kept; ``decoded`` takes the rest, in order."""
        rest: list[Placed] = []
        keep, line = self.view.keep, self._line
        for entry in entries:
            if not isinstance(entry, Sealed):
                rest.append(entry)
            elif not self._keeping or entry.published_at > self._until:
                rest.append(entry.opened())
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
        """Events were folded. Returns whether the history is told of them later."""
        if not self._line:
            return False
        self._line.extend(events)
        return True

    def some(self, most: int = AT_A_TIME) -> list[Taken]:
        """Folds some of what is kept. Returns of what the history is to be told now."""
        if not self._records:
            self.view.unfold(most)
            return []
        told: list[Taken] = []
        line, left = self._line, most
        while line and len(told) < most:
            first = line[0]
            if isinstance(first, Sealed):
                if first.noted is None:
                    if left <= 0:
                        break
                    left -= self.view.open_some(first.topic, left)  # it is the oldest of its topic
                assert first.noted is not None, "folded"
                told.append(first.noted)
            else:
                told.append(first)
            line.popleft()
        return told

    def stop_keeping(self) -> None:
        """There may be no room for all of what is kept: what it is has to be known."""
        self._keeping = False

    def beside(self, came: int) -> list[Taken]:
        """So much has come: where there may be no room for all, several times as much is folded. Returns as ``some`` does."""
        return [] if self._keeping else self.some(_ROOM * came)

    def in_doubt(self) -> list[Taken]:
        """All has come: where there may be no room for it, the rest is folded. Returns as ``some`` does."""
        told: list[Taken] = []
        while not self._keeping and not self.over:
            told += self.some()
        return told

    def close(self) -> None:
        """All is folded, or nobody wants it any more: the view goes on by itself."""
        self.view.leave()

    def take_late(self, entry: Sealed, placed: Placed) -> None:
        """An entry that was kept is to be folded."""
        placed, before, folded, change = self._fold(placed)
        self._problems += placed.problem != ""
        if self._records:
            entry.noted = placed, before, folded, change if change is not None else before

    def unsealed(self, topic: str) -> None:
        """What was kept of a topic is folded."""
        problems, self._problems = self._problems, 0
        self._tell(topic, problems)


class Keeping(ABC):
    """What a follower does with what it keeps."""

    view: View
    _owner: Owner | None
    share: Share
    _caught_up: bool
    _unfolding: Unfolding | None = None
    """What was read and is not folded yet; None: nothing."""
    keeper: Keeper | None
    """Keeps a checkpoint of the view, once all is folded; None: nobody does."""

    @property
    def unfolds(self) -> bool:
        """Whether something was read that is not folded yet, or that the recorder was not told of."""
        return self._unfolding is not None

    @abstractmethod
    def _fold(self, placed: Placed) -> Step: ...

    @abstractmethod
    def _take(self, owner: Owner, events: Sequence[Placed]) -> None: ...

    @abstractmethod
    def _report(self, report: Callable[[Owner], None]) -> None: ...

    @abstractmethod
    def _record(self, note: Callable[[Recorder], None]) -> None: ...

    @abstractmethod
    def _count(self, owner: Owner) -> None: ...

    def _take_unopened(self, owner: Owner, unfolding: Unfolding, entries: Sequence[Placed | Sealed]) -> None:
        unfolding.take(entries, partial(self._take, owner))
        if not self.share.has_room_for(len(self.view), unfolding.size):
            unfolding.stop_keeping()
        self._unfold(owner, unfolding.beside(len(entries)))

    def unfold(self) -> bool:
        """Folds some of what is kept, for as long as somebody listens. Returns whether there is more."""
        if (unfolding := self._unfolding) is not None:
            self._report(lambda owner: self._unfold(owner, unfolding.some()))
        return self._unfolding is not None and self._owner is not None

    def _unfold(self, owner: Owner, told: Sequence[Taken]) -> None:
        if told:
            self._record(lambda recorder: recorder.noted(told))
        self._count(owner)
        if self._caught_up and self._unfolding is not None and self._unfolding.over:
            self._unfolding.close()
            self._unfolding = None
            self._record(lambda recorder: recorder.caught_up())

    def _fold_late(self, placed: Placed) -> Step:
        """Folds an entry that was kept."""
        step = self._fold(placed)
        if self.keeper is not None:
            self.keeper.took_late(step[0])
        return step

    def _tell_late(self, topic: str, unreadable: int) -> None:
        if self._owner is not None:
            self._owner.folded_late(cast("Follower", self), topic, unreadable)


class Folding(Protocol):
    """An opening (``Follower``)."""

    @property
    def unfolds(self) -> bool:
        """Whether something is kept."""

    def unfold(self) -> bool:
        """Folds some of it. Returns whether there is more."""


S = TypeVar("S", bound="ServingFolding")


class ServingFolding(Protocol):
    """A view that answers (``life.Serving``)."""

    @property
    def follower(self) -> Folding:
        """Whose view it is."""


class Unfolder:
    """Folds what a namespace's view has kept, beside its answers."""

    def __init__(self, name: str) -> None:
        """``name``: ``tenant/namespace``."""
        self._name = name
        self._tasks = Owned(name)
        self._over = asyncio.Event()
        self._over.set()

    @property
    def busy(self) -> bool:
        """Whether there is something to fold."""
        return not self._over.is_set()

    def serve(self, follower: Folding, done: Callable[[], None]) -> None:
        """A view answers. ``done`` is called when all is folded, if that is not now."""
        if follower.unfolds:
            self._over.clear()
            self._tasks.begin(self._run(follower, done), "folding what was read")

    async def folded(self, ready: Callable[[], Awaitable[S]]) -> S:
        """The view that answers, once all is folded and whoever is to know that has been told.

        Raises:
            PolicyError: as ``ready`` does.
        """
        serving = await ready()
        if serving.follower.unfolds or self.busy:  # what is due at the end may be yet to be done
            await self._over.wait()
            serving = await ready()
        return serving

    async def close(self) -> None:
        """Ends it."""
        await self._tasks.close(cancel=True)
        self._over.set()

    async def _run(self, follower: Folding, done: Callable[[], None]) -> None:
        try:
            more = True
            while more:
                more = follower.unfold()
                await asyncio.sleep(0)
            done()
        finally:
            self._over.set()


def complete_after(log: NamespaceLog) -> list[Position | None]:
    """Behind which position of each partition nothing was compacted away."""
    return [log.complete_after(partition) for partition in range(log.partitions)]
