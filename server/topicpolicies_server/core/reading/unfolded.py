"""A view that keeps what was read for the first time as it came, and folds it when somebody looks at its topic.

The fold is pure per key, so it does not matter when a key's events are folded, as long as each is before anybody looks, and in their order.
What is kept is kept by topic: which scope an event is of, it tells only when it is decoded.

=======  ===================================================  =======  ==================================================================
a topic  what happens                                         next     what is done
=======  ===================================================  =======  ==================================================================
FOLDED   an entry of it is kept                               KEPT     nothing: neither decoded nor folded
KEPT     another one is kept                                  KEPT     it stands behind the other one
KEPT     its turn comes, and there are more entries than may  KEPT     the oldest of them are opened and folded; if one of them can't be
         be folded at once                                             opened, the error is raised, and none of them was folded
KEPT     a key of it is looked at, or an event of it taken    FOLDED   its entries are opened and folded, each as what was known of the
                                                                       log when it came would have had it
KEPT     one of them can't be opened                          KEPT     the error is raised, and nothing was folded
=======  ===================================================  =======  ==================================================================

A topic of which nothing was kept is FOLDED. Whoever looks at all keys has all folded; who can wait for that folds them beforehand, some at
a time. Three things are as if each entry had been folded as it came: requests that were applied lately (``fold/recent``), what the keys'
states have let go of by the time the log was looked at as a whole (``sight``), and that no key becomes idle while entries of it are kept
(``lately``), though other topics are folded that have come further. The changes of a view are numbered, and its cells ordered,
as they are folded; so only what comes when all is folded stands in the order of the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, Protocol

from ..fold.fold import FoldContext, Folded, KeyState, sight
from ..names import PolicyKey, Scope
from ..policies.documents import Settings
from ..policies.events import Placed, Position
from .cells import Trace
from .lately import Lately
from .snapshot import Snapshot
from .view import Head, View


class Sealed(ABC):
    """An entry of a log that is not decoded yet."""

    __slots__ = ("before", "complete", "context", "noted", "number", "partition", "position", "published_at", "topic")

    def __init__(self, partition: int, position: Position, topic: str, published_at: int) -> None:
        """Nobody keeps it yet.

        Args:
            partition: where it stands.
            position: where it stands in that.
            topic: the full name of the topic of which it tells, if it tells anything.
            published_at: milliseconds since 1970, by the log's clock.
        """
        self.partition = partition
        self.position = position
        self.topic = topic
        self.published_at = published_at
        self.before: Sealed | None = None
        """The entry of its topic that is kept before it."""
        self.number = 0
        """Counts what is kept."""
        self.context = _NO_CONTEXT
        self.complete: Sequence[Position | None] = ()
        """What was known of the log when it came."""
        self.noted: Any = None
        """Of whoever keeps it, to remember what became of it."""

    @property
    @abstractmethod
    def producer(self) -> str:
        """Who wrote it (``Placed.producer``)."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of what was written."""

    @abstractmethod
    def opened(self) -> Placed:
        """The entry decoded. It is asked for once, unless that fails."""


_NO_CONTEXT = FoldContext()


class Late(Protocol):
    """Whoever is told of what was kept."""

    def take_late(self, entry: Sealed, placed: Placed) -> None:
        """An entry that was kept is to be taken, which is done by handing it to the view."""

    def unsealed(self, topic: str) -> None:
        """What was kept of a topic is taken."""


class Unfolded(View):
    """A view that may keep entries."""

    __slots__ = ("_folding", "_kept", "_late", "_lines", "_numbers", "_sighted_at")

    def __init__(
        self, context: FoldContext, complete: Sequence[Position | None] = (), absences: int | None = None, late: Late | None = None
    ) -> None:
        """An empty view (``View``). ``late``: who is told of what was kept; None: nobody."""
        super().__init__(context, complete, absences)
        self._late = late
        self._kept: dict[str, Sealed] = {}
        """The newest entry of each topic."""
        self._lines: dict[str, list[Sealed]] = {}
        """The entries, the newest first, of each topic of which some are folded, and perhaps newer ones were kept since."""
        self._cells.lately.default_factory = partial(Lately, context.window_ms, self._kept)
        self._folding: str | None = None
        """The topic of which entries are being folded."""
        self._numbers = count(1)
        self._sighted_at: int | None = None

    @property
    def unfolded(self) -> int:
        """Topics of which entries are kept."""
        return len(self._kept)

    def keep(self, entry: Sealed) -> None:
        """Keeps an entry, the next of the log. It must be so old that brokers do not compute from it any more (``sight``)."""
        entry.context, entry.complete = self._context, self._complete
        entry.number = next(self._numbers)
        entry.before = self._kept.get(entry.topic)
        if entry.before is None and self._cells.has(entry.topic):
            self._lines.setdefault(entry.topic, [])  # some are folded: ``sight`` looks at all of it
        self._kept[entry.topic] = entry

    def leave(self) -> None:
        """Nobody is told of what was kept any more."""
        self._late = None

    def unfold(self, most: int) -> bool:
        """Folds so many entries at most, those of the topics that were kept first. Returns whether there are more."""
        for topic in [topic for topic, _ in zip(self._kept, range(most), strict=False)]:
            if most > 0:
                most -= self.open_some(topic, most)
        return bool(self._kept)

    def open(self, topic: str) -> None:
        """Folds what is kept of a topic. It raises whatever opening an entry does."""
        if topic in self._kept and topic != self._folding:
            self.open_some(topic)

    def open_some(self, topic: str, most: int | None = None) -> int:
        """Folds the oldest entries that are kept of a topic, so many at most; None: all. Returns how many.

        It raises whatever opening an entry does.
        """
        line = self._line(topic)
        begin = 0 if most is None else max(len(line) - most, 0)
        try:
            opened = [(entry, entry.opened()) for entry in reversed(line[begin:])]
        except BaseException:
            del self._lines[topic]  # it is made again
            raise
        del line[begin:]
        if line:
            line[-1].before = None
        elif opened:
            del self._kept[topic], self._lines[topic]
        self._fold(topic, opened)
        if opened and not line:
            self._folded(topic)
        return len(opened)

    def _line(self, topic: str) -> list[Sealed]:
        """The entries that are kept of a topic, the newest first."""
        entry, line = self._kept.get(topic), self._lines.setdefault(topic, [])
        came: list[Sealed] = []
        while entry is not None and not (line and entry is line[0]):
            came.append(entry)
            entry = entry.before
        line[:0] = came
        return line

    def _fold(self, topic: str, opened: Sequence[tuple[Sealed, Placed]]) -> None:
        known, folding = (self._context, self._complete), self._folding
        self._folding = topic
        try:
            for entry, placed in opened:
                self._context, self._complete = entry.context, entry.complete
                self.recent.number = entry.number
                if self._late is None:
                    self.take(placed)
                else:
                    self._late.take_late(entry, placed)
        finally:
            self._context, self._complete = known
            self._folding = folding
            self.recent.number = 0

    def _folded(self, topic: str) -> None:
        """Nothing is kept of a topic any more."""
        if self._sighted_at is not None:
            for scope in Scope:
                state = super().state(PolicyKey(topic, scope))
                if state is not None:
                    sight(state, self._sighted_at, self._context.window_ms)
        if self._late is not None:
            self._late.unsealed(topic)

    def open_all(self) -> None:
        """Folds everything."""
        for topic in list(self._kept):
            self.open(topic)

    # --- View: whoever looks at a key finds it folded ---------------------------------------------------------------

    def state(self, key: PolicyKey) -> KeyState | None:
        """The fold's state of a key (``View.state``)."""
        if self._kept:
            self.open(key.topic)
        return super().state(key)

    def head(self, key: PolicyKey) -> Head | None:
        """The head of a key (``View.head``)."""
        if self._kept:
            self.open(key.topic)
        return super().head(key)

    def take(self, placed: Placed, computed_on: Settings | None = None) -> tuple[Folded | None, Head | None]:
        """Folds the next event of the log (``View.take``)."""
        if self._kept and placed.event is not None:
            self.open(placed.event.key.topic)
        return super().take(placed, computed_on)

    def sight(self, now: int) -> int | None:
        """Looks for keys of which something may be missing (``View.sight``); of what is kept nothing is."""
        for topic in list(self._lines):
            self.open(topic)
        self._sighted_at = now
        return super().sight(now)

    # --- Whoever looks at all keys finds them all folded, but for ``states`` and ``due``, which are of what is folded

    def heads(self) -> Iterator[Head]:
        """All heads (``View.heads``)."""
        self.open_all()
        return super().heads()

    def traces(self) -> Iterator[Trace]:
        """Where all heads stand (``View.traces``)."""
        self.open_all()
        return super().traces()

    def documents(self, scopes: frozenset[Scope]) -> Snapshot:
        """The heads with a document (``View.documents``)."""
        self.open_all()
        return super().documents(scopes)

    def page(self, scopes: frozenset[Scope], after: PolicyKey | None, most: int, most_bytes: int | None = None) -> tuple[list[Head], bool]:
        """Documents in the order of their keys (``View.page``)."""
        self.open_all()
        return super().page(scopes, after, most, most_bytes)

    def __len__(self) -> int:
        return super().__len__() + len(self._kept)

    def succeed(self, older: View, positions: Sequence[Position]) -> list[Head]:
        """Continues the numbering of a view that this one replaces (``View.succeed``)."""
        self.open_all()
        return super().succeed(older, positions)
