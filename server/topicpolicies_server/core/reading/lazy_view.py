"""A view that keeps log entries undecoded while a log is loaded, and folds them when their topic is needed.

The fold is pure per key, so a key's events may be folded at any time, if they are folded in their order and before the key is read. Entries
are kept by topic: an event's scope is known only once it is decoded.

=======  ===================================================  =======  ==================================================================
topic    event                                                next     action
=======  ===================================================  =======  ==================================================================
FOLDED   an entry of the topic is kept                        KEPT     the entry is neither decoded nor folded
KEPT     another entry is kept                                KEPT     the entry is put after the others
KEPT     the topic's turn (``fold_kept``), with more entries  KEPT     the oldest entries are decoded and folded; if one of them can't be
         than may be folded at once                                    decoded, the error is raised, and none of them was folded
KEPT     a key of the topic is read, or an event of it taken  FOLDED   all entries are decoded and folded, each with what was known of the
                                                                       log when the entry was read
KEPT     the same, but an entry can't be decoded              KEPT     the error is raised, and nothing was folded
=======  ===================================================  =======  ==================================================================

A topic without kept entries is FOLDED. A method that reads all keys first folds all topics; a caller that can wait folds them beforehand,
some at a time. Three things are as if each entry had been folded when it was read: the requests that were applied lately (``fold/recent``);
what the keys' states have dropped by the time of the last ``check_all_seen``; and that no key becomes idle (``recent_cells``) while entries
of it are kept, though other topics that are folded have advanced further. But changes are numbered, and cells are ordered, in the order in
which events are folded; so only changes made when all is folded stand in the order of the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, Protocol

from ..fold.fold import FoldContext, Folded, KeyState, check_all_seen
from ..names import PolicyKey, Scope
from ..policies.events import Placed, Position
from .cells import Trace
from .recent_cells import RecentCells
from .view import Head, View
from .walk import Walk


class UndecodedEntry(ABC):
    """An entry of a log that is not decoded yet."""

    __slots__ = ("before", "complete", "context", "noted", "number", "partition", "position", "published_at", "topic")

    def __init__(self, partition: int, position: Position, topic: str, published_at: int) -> None:
        """An entry that no view keeps yet.

        Args:
            partition: the entry's partition.
            position: the entry's position in its partition.
            topic: the full name of the topic whose policies the entry changes, if it can be decoded.
            published_at: milliseconds since 1970, by the log's clock.
        """
        self.partition = partition
        self.position = position
        self.topic = topic
        self.published_at = published_at
        self.before: UndecodedEntry | None = None
        """The kept entry of the same topic before this one."""
        self.number = 0
        """The number of this entry: the view counts the entries that it keeps."""
        self.context = _NO_CONTEXT
        self.complete: Sequence[Position | None] = ()
        """With ``context``, what the view knew of the log when this entry was read (``View.complete_behind``)."""
        self.noted: Any = None
        """For the owner of the view, to remember the result of folding this entry."""

    @property
    @abstractmethod
    def producer(self) -> str:
        """The entry's writer (``Placed.producer``)."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The size of the entry in the log, in bytes."""

    @abstractmethod
    def decode(self) -> Placed:
        """Decodes the entry. Called once, unless that fails."""


_NO_CONTEXT = FoldContext()


class LateSink(Protocol):
    """Takes kept entries when they are folded."""

    def take_late(self, entry: UndecodedEntry, placed: Placed) -> None:
        """Takes a kept entry that was decoded; must pass it to the view's ``take``."""

    def topic_folded(self, topic: str) -> None:
        """Is called when all kept entries of a topic are taken."""


class LazyView(View):
    """A view that may keep entries undecoded."""

    __slots__ = ("_all_seen_checked_at", "_folding", "_kept", "_late", "_lines", "_numbers")

    def __init__(
        self, context: FoldContext, complete: Sequence[Position | None] = (), absences: int | None = None, late: LateSink | None = None
    ) -> None:
        """An empty view (``View``). ``late``: takes kept entries when they are folded; None: the view takes them itself."""
        super().__init__(context, complete, absences)
        self._late = late
        self._kept: dict[str, UndecodedEntry] = {}
        """The newest kept entry of each topic; ``UndecodedEntry.before`` leads to the others."""
        self._lines: dict[str, list[UndecodedEntry]] = {}
        """Of each topic of which some events are folded already, the kept entries, newest first, but for those kept since."""
        self._cells.recent_cells.default_factory = partial(RecentCells, context.window_ms, self._kept)
        self._folding: str | None = None
        """The topic whose entries are being folded; None: none is."""
        self._numbers = count(1)
        self._all_seen_checked_at: int | None = None

    @property
    def unfolded(self) -> int:
        """How many topics have kept entries."""
        return len(self._kept)

    def keep(self, entry: UndecodedEntry) -> None:
        """Keeps the next entry of the log. It must be so old that no broker computes from its document any more (``check_all_seen``)."""
        entry.context, entry.complete = self._context, self._complete
        entry.number = next(self._numbers)
        entry.before = self._kept.get(entry.topic)
        if entry.before is None and self._cells.has(entry.topic):
            self._lines.setdefault(entry.topic, [])  # some events are folded already: ``check_all_seen`` must fold this topic
        self._kept[entry.topic] = entry

    def leave(self) -> None:
        """Stops passing kept entries to ``late``."""
        self._late = None

    def fold_kept(self, most: int) -> bool:
        """Folds at most so many kept entries, those of the topics kept first. Returns whether more are kept."""
        for topic in [topic for topic, _ in zip(self._kept, range(most), strict=False)]:
            if most > 0:
                most -= self.fold_some(topic, most)
        return bool(self._kept)

    def fold_topic(self, topic: str) -> None:
        """Folds all kept entries of a topic. Raises what decoding an entry raises."""
        if topic in self._kept and topic != self._folding:
            self.fold_some(topic)

    def fold_some(self, topic: str, most: int | None = None) -> int:
        """Folds the oldest kept entries of a topic, at most so many; None: all. Returns how many.

        Raises what decoding an entry raises; then none of them is folded.
        """
        line = self._line(topic)
        begin = 0 if most is None else max(len(line) - most, 0)
        try:
            decoded = [(entry, entry.decode()) for entry in reversed(line[begin:])]
        except BaseException:
            del self._lines[topic]  # the next call makes it again
            raise
        del line[begin:]
        if line:
            line[-1].before = None
        elif decoded:
            del self._kept[topic], self._lines[topic]
        self._fold(topic, decoded)
        if decoded and not line:
            self._folded(topic)
        return len(decoded)

    def _line(self, topic: str) -> list[UndecodedEntry]:
        """Returns the kept entries of a topic, the newest first."""
        entry, line = self._kept.get(topic), self._lines.setdefault(topic, [])
        came: list[UndecodedEntry] = []
        while entry is not None and not (line and entry is line[0]):
            came.append(entry)
            entry = entry.before
        line[:0] = came
        return line

    def _fold(self, topic: str, decoded: Sequence[tuple[UndecodedEntry, Placed]]) -> None:
        known, folding = (self._context, self._complete), self._folding
        self._folding = topic
        try:
            for entry, placed in decoded:
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
        """Is called when all kept entries of a topic are folded."""
        if self._all_seen_checked_at is not None:
            for scope in Scope:
                state = super().state(PolicyKey(topic, scope))
                if state is not None:
                    check_all_seen(state, self._all_seen_checked_at, self._context.window_ms)
        if self._late is not None:
            self._late.topic_folded(topic)

    def fold_all(self) -> None:
        """Folds all kept entries."""
        for topic in list(self._kept):
            self.fold_topic(topic)

    # --- View: methods that read one key first fold its topic -------------------------------------------------------

    def state(self, key: PolicyKey) -> KeyState | None:
        """Returns the fold's state of a key (``View.state``)."""
        if self._kept:
            self.fold_topic(key.topic)
        return super().state(key)

    def head(self, key: PolicyKey) -> Head | None:
        """Returns the head of a key (``View.head``)."""
        if self._kept:
            self.fold_topic(key.topic)
        return super().head(key)

    def take(self, placed: Placed) -> tuple[Folded | None, Head | None]:
        """Folds the next event of the log (``View.take``)."""
        if self._kept and placed.event is not None:
            self.fold_topic(placed.event.key.topic)
        return super().take(placed)

    def check_all_seen(self, now: int) -> int | None:
        """Looks for keys with documents that were not seen (``View``); first folds the topics of which some events are folded.

        Topics of which all entries are kept need not be folded for this: kept entries are old enough that nothing is missing.
        """
        for topic in list(self._lines):
            self.fold_topic(topic)
        self._all_seen_checked_at = now
        return super().check_all_seen(now)

    # --- View: methods that read all keys first fold all topics, but for ``states`` and ``due``, which read folded keys only

    def heads(self) -> Iterator[Head]:
        """Yields all heads (``View.heads``)."""
        self.fold_all()
        return super().heads()

    def traces(self) -> Iterator[Trace]:
        """Yields the traces of all heads (``View.traces``)."""
        self.fold_all()
        return super().traces()

    def documents(self, scopes: frozenset[Scope]) -> Walk:
        """Returns the heads with a document (``View.documents``)."""
        self.fold_all()
        return super().documents(scopes)

    def changed(self, scopes: frozenset[Scope], since: Callable[[Trace], bool]) -> Walk:
        """Returns the heads that ``since`` accepts (``View.changed``)."""
        self.fold_all()
        return super().changed(scopes, since)

    def stood(self, keys: Iterable[PolicyKey], since: Callable[[Trace], bool] | None = None) -> Walk:
        """Returns the heads of some keys (``View.stood``); first folds their topics."""
        found = list(keys)
        for key in found if self._kept else ():
            self.fold_topic(key.topic)
        return super().stood(found, since)

    def page(self, scopes: frozenset[Scope], after: PolicyKey | None, most: int, most_bytes: int | None = None) -> tuple[list[Head], bool]:
        """Returns heads with a document in the order of their keys (``View.page``)."""
        self.fold_all()
        return super().page(scopes, after, most, most_bytes)

    def named(self, after: str, most: int) -> list[str]:
        """Returns the names of keys with a document (``View.named``)."""
        self.fold_all()
        return super().named(after, most)

    def __len__(self) -> int:
        return super().__len__() + len(self._kept)

    def succeed(self, older: View, positions: Sequence[Position]) -> list[Head]:
        """Continues the numbering of a view that this one replaces (``View.succeed``)."""
        self.fold_all()
        return super().succeed(older, positions)
