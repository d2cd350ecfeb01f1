"""The heads of a view as they stood at one moment, found some at a time while the view goes on.

A walk looks at one key after the other: at those with a document by their names, and at those that were listed when it began. Callers ask
for a part (``part``), and each part looks at ``LOOKS`` keys at most, so that a walk over any number of keys keeps no caller waiting. The
view tells its walks of each key that is about to change (``Walks``), so that what is found is of the moment at which the walk began:

=======  ========================================================  =======  ==========================================================
key      event                                                     next     action
=======  ========================================================  =======  ==========================================================
AHEAD    the walk comes to it                                      MET      its head is found, if it is wanted
AHEAD    its head is replaced, or its cell removed                 KEPT     the head that it had is kept
KEPT     no key is AHEAD any more, and the walk comes to it        MET      the kept head is found, if it is wanted
(none)   it comes into being                                       NEW
KEPT,    the walk comes to its name                                same     nothing: the number of its head is greater than that of the
NEW                                                                         last change before the walk began
any      all keys are MET                                          (none)   the walk is complete: the view tells it nothing any more
=======  ========================================================  =======  ==========================================================

So each key is found once, and a change that comes meanwhile is never found: watchers get it afterwards, as a change.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import overload
from weakref import ref

from ..names import PolicyKey, Scope
from ..policies.events import ABSENT
from .cell import Kept, document_size, key_of, name_of, number_of
from .cells import Cells, Trace
from .heads import Head
from .pages import Pages
from .snapshot import Snapshot, Stood

LOOKS = 1_024
"""How many keys a walk looks at in one turn at most."""
_FEW = 16


class Walk(Snapshot):
    """Some heads of a view as they stood when the walk began."""

    __slots__ = (
        "__weakref__",
        "_at",
        "_by_number",
        "_changed_since",
        "_complete",
        "_kept_heads",
        "_kept_names",
        "_listed",
        "_number",
        "_pages",
        "_scopes",
    )

    def __init__(
        self,
        cells: Cells,
        number: int,
        *,
        pages: Pages | None = None,
        scopes: frozenset[Scope] = frozenset(Scope),
        listed: Iterable[str] = (),
        changed_since: Callable[[Trace], bool] | None = None,
    ) -> None:
        """Looks at nothing yet.

        Args:
            cells: the cells of the view.
            number: the number of the view's last change.
            pages: the names of the keys with a document, to be looked at; None: those that are listed only.
            scopes: the scopes of the keys that are wanted, of ``pages``.
            listed: the names of further keys, none of which has a document if ``pages`` are given.
            changed_since: whether a head is wanted, by its trace. Such heads are found in the order of their last change. None: every key
                is wanted, and a listed one without a head counts as absent.
        """
        super().__init__(cells)
        self._number = number
        self._pages = pages
        self._scopes = scopes
        self._at = ""
        """The last name of ``pages`` that was looked at."""
        self._listed: OrderedDict[str, None] = OrderedDict.fromkeys(listed)
        """The listed names that are AHEAD."""
        self._kept_names: deque[str] = deque()
        """The names of keys that are KEPT, in the order in which they changed."""
        self._kept_heads: deque[Head | bytes | None] = deque()
        """The heads of these keys, frozen if they were; None: there was no head. Two queues take a fifth of the memory of a dict."""
        self._changed_since = changed_since
        self._by_number: list[tuple[int, Stood]] = []
        """The wanted heads, where they are found in the order of their last change: a heap."""
        self._complete = False

    # --- for the reader ---------------------------------------------------------------------------------------------

    def part(self, at: int, most: int) -> list[Head]:
        """Returns at most ``most`` heads from an index on; fewer, or none, if looking at ``LOOKS`` more keys did not find as many."""
        if len(self._heads) <= at + most:
            self._look(at + most + 1)
        return super().part(at, most)

    def ends_at(self, at: int) -> bool:
        """Returns whether there is no head at an index and after it."""
        return self._complete and not self._by_number and super().ends_at(at)

    def __len__(self) -> int:
        self._finish()
        return super().__len__()

    @overload
    def __getitem__(self, at: int) -> Head: ...

    @overload
    def __getitem__(self, at: slice) -> list[Head]: ...

    def __getitem__(self, at: int | slice) -> Head | list[Head]:
        self._finish()
        return super().__getitem__(at)

    # --- for the view -----------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether all keys are MET."""
        return self._complete

    def about_to_change(self, name: str, head: Head | bytes | None) -> None:
        """Notes that a key will have another head, or its cell be removed; ``head``: what it has now, perhaps frozen; None: nothing."""
        if name in self._listed:
            del self._listed[name]
        elif self._pages is None or name <= self._at or head is None or not self._stood(head) or key_of(name).scope not in self._scopes:
            return
        self._kept_names.append(name)
        self._kept_heads.append(head)

    def _stood(self, head: Head | bytes) -> bool:
        """Returns whether a head has a document, and was there when the walk began."""
        if isinstance(head, bytes):
            return document_size(head) is not None and number_of(head) <= self._number
        return head.document is not None and head.number <= self._number

    # --- the walk ---------------------------------------------------------------------------------------------------

    def _look(self, upto: int) -> None:
        """Looks at keys until so many heads are found, or ``LOOKS`` keys were looked at."""
        heads, cells, looks = self._heads, self._cells, LOOKS
        if self._pages is not None:
            for name in self._pages.names(self._scopes, self._at):
                if not looks or len(heads) >= upto:
                    return
                looks -= 1
                self._at = name
                self._meet(name, cells.kept(name))
            self._pages = None
        while self._listed or self._kept_names:
            if not looks or len(heads) >= upto:
                return
            looks -= 1
            if self._listed:
                name, _ = self._listed.popitem(last=False)
                self._meet(name, cells.kept(name))
            else:
                self._meet(self._kept_names.popleft(), self._kept_heads.popleft())
        self._complete = True
        while self._by_number and len(heads) < upto:
            self._found(*heapq.heappop(self._by_number)[1])

    def _meet(self, name: str, kept: Kept | Head | None) -> None:
        found = kept if isinstance(kept, bytes | Head | None) else kept.head
        number = 0 if found is None else number_of(found) if isinstance(found, bytes) else found.number
        if self._changed_since is not None:
            if found is not None and 0 < number <= self._number and self._changed_since(trace := Trace.of(name, found)):
                heapq.heappush(self._by_number, (trace.number, (name, found)))
        elif found is None or not (number or isinstance(found, Head)):
            self._found(name, Head(key_of(name), None, ABSENT, "", None, 0))
        elif number <= self._number:
            self._found(name, found)

    def _found(self, name: str, head: Head | bytes) -> None:
        self._names.append(name)
        self._heads.append(head)

    def _finish(self) -> None:
        while not self.ends_at(len(self._heads)):
            self._look(len(self._heads) + LOOKS)


class Walks:
    """The walks of one view that are not complete."""

    __slots__ = ("_begun", "_most")

    def __init__(self) -> None:
        """There are none."""
        self._begun: list[ref[Walk]] = []
        self._most = _FEW
        """Beyond so many, those that are over are removed."""

    def __len__(self) -> int:
        return len(self._begun)

    def begin(self, walk: Walk) -> Walk:
        """Adds a walk, until it is complete or nobody needs it any more."""
        self._begun.append(ref(walk))
        if len(self._begun) > self._most:
            self._tidy()
            self._most = 2 * len(self._begun) + _FEW
        return walk

    def about_to_change(self, name: str, head: Head | bytes | None) -> None:
        """Tells all walks of a key that is about to change (``Walk.about_to_change``)."""
        over = False
        for each in self._begun:
            walk = each()
            if walk is None or walk.complete:
                over = True
            else:
                walk.about_to_change(name, head)
        if over:
            self._tidy()

    def _tidy(self) -> None:
        self._begun = [each for each in self._begun if (walk := each()) is not None and not walk.complete]


class Walked:
    """The part of ``View`` that begins walks."""

    __slots__ = ()

    _absent: OrderedDict[str, None]
    _cells: Cells
    _number: int
    _pages: Pages
    _walks: Walks

    def documents(self, scopes: frozenset[Scope]) -> Walk:
        """Returns the heads with a document, as of now."""
        return self._walks.begin(Walk(self._cells, self._number, pages=self._pages, scopes=scopes))

    def changed(self, scopes: frozenset[Scope], since: Callable[[Trace], bool]) -> Walk:
        """Returns the heads whose traces ``since`` accepts, absences included, as of now, the oldest change first."""
        absent = [name for name in self._absent if key_of(name).scope in scopes]
        return self._walks.begin(Walk(self._cells, self._number, pages=self._pages, scopes=scopes, listed=absent, changed_since=since))

    def stood(self, keys: Iterable[PolicyKey], since: Callable[[Trace], bool] | None = None) -> Walk:
        """Returns the heads of some keys, as of now, also absent ones; if ``since`` is given, those whose traces it accepts."""
        return self._walks.begin(Walk(self._cells, self._number, listed=map(name_of, keys), changed_since=since))
