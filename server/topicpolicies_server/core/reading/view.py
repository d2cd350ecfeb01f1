"""The view: the heads of one namespace, built from the events of its log in order, and from nothing else.

There is one cell for each key, in use or as bytes (``cell``). The cells stand in the order of their last change. What a key costs does not
depend on how many other keys there are: keys with a document have an order by name, absent ones one by last change, and those that had
events lately one by the time of these (``orders``).

**Deleted keys are forgotten**: the longest deleted first, and none for which an event may still come. A forgotten key is like one without
any event in the log, as after a start after a compaction, which erases the key too. The view knows up to which position of each partition
deletions were forgotten (``forgotten``), so that no watcher resumes from an older place and misses a deletion.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, TypeAlias
from weakref import ref

from ..fold.fold import FoldContext, Folded, KeyState, fold
from ..fold.keystate import ALONE
from ..fold.operation import Status, conditional
from ..names import PolicyKey, Scope
from ..policies import documents
from ..policies.documents import Document
from ..policies.events import ABSENT, Placed, Position, Remembered, Stamp
from .cell import Cell, Head, Header, Kept, from_bytes, head_from_bytes, is_due, key_of, name_of, to_bytes
from .orders import Order, names_of

ABSENCES = 10_000
"""How many keys without a document are kept, by default; more only while events may still come for them."""
IN_USE = 1_024
"""How many cells of a server may be in use, by default: the others are bytes, so that 100,000 topics fit into memory."""
WINDOWS = 3
"""How many windows W a key is without an event when it counts as idle: its state is of use for twice W, and clocks may differ by W."""
_AT_A_TIME = 2
"""How many keys each event looks at, to forget or to trim them."""
_RUN = 2_048
"""How many names are sorted at a time, roughly: no other thread runs during a sort."""
RECENT = 32_768
"""How many requests of a namespace are kept, for all its keys together: at a thousand updates a second, half a minute's. They are many more
than a key's events carry (``keystate.REMEMBERED_REQUESTS``), and each is kept as two strings: objects took half as much memory again."""
Texts: TypeAlias = tuple[str, str]
"""A request as it is kept: its name, which includes its key, and its answer: digest, version and previous version, which have no blanks."""


class HeadPlace(NamedTuple):
    """Number and place of a head, by which a caller selects heads without reading all of a cell at rest."""

    number: int
    partition: int
    position: Position
    name: str
    """The name of the head's key."""


class Copy(NamedTuple):
    """All that is kept of a view for another process. Nothing changes it."""

    names: Sequence[str]
    """The names of all keys (``cell.name_of``), in any order."""
    cells: Sequence[bytes]
    """The cell of each key."""
    number: int
    """The number of the last change."""
    forgotten: Mapping[int, Position]
    """The position up to which deletions were forgotten, by partition."""
    times: Mapping[int, int]
    """The time of each partition by its events, in milliseconds since 1970 (``ActiveKeys``)."""
    requests: Sequence[Texts]
    """The requests applied lately, the oldest first."""
    document_bytes: int
    """The size of the documents in bytes."""


class ViewStep(NamedTuple):
    """What an entry of the log did to its key."""

    folded: Folded | None
    """What the fold did; None: the entry is no event."""
    head: Head | None
    """The new head; None: it did not change."""
    before: Head | None
    """The head before it; None: there was none."""
    state: KeyState | None
    """The fold's state after it (``View.state``)."""


_NO_EVENT = ViewStep(None, None, None, None)


@dataclass(slots=True, eq=False)
class CellsInUse:
    """The cells of all views of a server that are in use."""

    most: int = IN_USE
    """How many there may be before another one is used."""
    cells: OrderedDict[Cell, ref[View]] = field(default_factory=OrderedDict)
    """The cells, the longest unused first, each with its view."""

    def leave(self, owner: ref[View]) -> None:
        """Removes the cells of a view that is gone."""
        for cell in [cell for cell, each in self.cells.items() if each is owner]:
            del self.cells[cell]


class ActiveKeys:
    """The keys of one partition that are not idle, by name, the longest without an event first.

    Each event looks at two of them, so that none takes long. The time is the earlier one of the last two events, so that one event with a
    wrong time makes no key idle.
    """

    __slots__ = ("_keys", "_last", "_window_ms", "now")

    def __init__(self, window_ms: int) -> None:
        """Begins without keys. ``window_ms``: W, in milliseconds."""
        self._window_ms = window_ms
        self._keys: OrderedDict[str, int] = OrderedDict()  # finding the first entry of a dict is slow
        """When the last event of each key was published, in milliseconds since 1970."""
        self._last: int | None = None
        """When the last event was published; None: there was none."""
        self.now: int | None = None
        """The time, in milliseconds since 1970; None: there was no event."""

    def begin(self, keys: Iterable[tuple[str, int]], now: int) -> None:
        """Sets the time, and adds keys with the times of their last events, the longest without an event first."""
        self._keys.update(keys)
        self._last = self.now = now

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def remove(self, name: str) -> None:
        """Removes a key that has nothing to be dropped, or whose next event stands in another partition."""
        self._keys.pop(name, None)

    def touch(self, name: str, at: int) -> list[str]:
        """Notes an event of a key. Returns the names of keys that are idle now; these are removed.

        ``at``: when the event was published, in milliseconds since 1970.
        """
        now = self.now = at if self._last is None else min(at, self._last)
        self._last = at
        keys = self._keys
        keys[name] = at
        keys.move_to_end(name)
        idle: list[str] = []
        for _ in range(_AT_A_TIME):
            first, touched_at = next(iter(keys.items()))
            if touched_at < now - WINDOWS * self._window_ms:
                del keys[first]
                idle.append(first)
            elif touched_at > now + self._window_ms:  # from the future: others may be idle before it
                keys.move_to_end(first)
            else:
                break
        return idle


class View:
    """The heads of one namespace."""

    def __init__(
        self,
        context: FoldContext,
        absences: int | None = None,
        in_use: CellsInUse | None = None,
    ) -> None:
        """An empty view.

        ``absences``: how many keys without a document are kept; None: ``ABSENCES``. ``in_use``: the cells in use of all views of the
        server; None: those of this view only.
        """
        self.context = context
        """What the fold must know besides state and event. Whoever loads the log sets what it learns meanwhile."""
        self.number = 0
        """The number of the last change."""
        self._absences = ABSENCES if absences is None else absences
        self._requests: OrderedDict[str, str] = OrderedDict()  # finding the first entry of a dict is slow
        """Requests that were applied lately, the oldest first, so that a repeated one gets its first answer: ``Texts``."""
        self._cells: OrderedDict[str, Kept] = OrderedDict()
        self._active: defaultdict[int, ActiveKeys] = defaultdict(lambda: ActiveKeys(context.window_ms))
        """The keys that had events lately, by partition, but for those at rest with a document and nothing to be dropped."""
        self.head_count = 0
        """How many keys have a head, absent documents included."""
        self.document_bytes = 0
        """The size of the documents in bytes."""
        self._absent: OrderedDict[str, None] = OrderedDict()
        self.forgotten: dict[int, Position] = {}
        """The position up to which deletions were forgotten, by partition; without partitions where none was."""
        self._present = Order()
        self.share(CellsInUse() if in_use is None else in_use)

    def share(self, in_use: CellsInUse) -> None:
        """Limits the cells in use together with those of other views. To be called before a cell is used."""
        self._in_use = in_use
        self._me = ref(self, in_use.leave)

    def state(self, key: PolicyKey) -> KeyState | None:
        """Returns the fold's state of a key; None: the log has no event of it. Ask again after each ``fold``: it may be another object."""
        cell = self._use(name_of(key))
        return cell.state if cell is not None else None

    def head(self, key: PolicyKey) -> Head | None:
        """Returns the head of a key; None: no event of the log made one."""
        return self._head(name_of(key))

    def is_newest(self, head: Head) -> bool:
        """Returns whether no change of the same key is known that is newer than a head."""
        kept = self._cells.get(name_of(head.key))
        if isinstance(kept, bytes):
            return Header.of(kept).number == head.number
        return kept is None or kept.head is None or kept.head.number == head.number

    def version(self, key: PolicyKey) -> Position:
        """Returns the version of a key's document, also of an absent one."""
        head = self.head(key)
        return head.version if head is not None else ABSENT

    def applied(self, key: PolicyKey, request_id: str) -> Remembered | None:
        """Returns what became of a request; None if it was not applied, or not lately."""
        answer = self._requests.get(_request_name(name_of(key), request_id))
        return None if answer is None else Remembered(request_id, *answer.rsplit(" ", 2))

    def places(self) -> Iterator[HeadPlace]:
        """Yields the places of all heads, the newest change first, for a caller that needs few of the heads."""
        for name, kept in reversed(self._cells.items()):
            if isinstance(kept, bytes):
                header = Header.of(kept)
                if header.number:
                    yield HeadPlace(header.number, header.head_partition, header.position(kept), name)
            elif kept.head is not None:
                yield HeadPlace(kept.head.number, kept.head.partition, kept.head.position, name)

    def deletions(self, scopes: frozenset[Scope], since: Callable[[Head], bool]) -> list[Head]:
        """Returns the heads without a document that ``since`` accepts, the oldest change first."""
        heads = map(self._head, self._absent)
        return [head for head in heads if head is not None and head.key.scope in scopes and since(head)]

    def due(self) -> Iterator[tuple[PolicyKey, KeyState]]:
        """Yields the fold's state of every key of which a repair is due, as of now, to be read only."""
        kept_now = list(self._cells.items())  # a copy, because another thread may call this
        return ((key_of(name), _state_of(name, kept)) for name, kept in kept_now if is_due(kept))

    def page(self, scopes: frozenset[Scope], after: PolicyKey | None, most: int, most_bytes: int | None = None) -> tuple[list[Head], bool]:
        """Returns at most ``most`` heads with a document, in the order of their keys, after ``after``, and whether there are more.

        The page ends with the document that makes it at least ``most_bytes`` large.
        """
        page: list[Head] = []
        size = 0
        for name in names_of(self._present, scopes, after):
            if len(page) == most or (most_bytes is not None and size >= most_bytes):
                return page, True
            head = self._head(name)
            assert head is not None, "it has a document"
            page.append(head)
            size += head.size
        return page, False

    def named(self, after: str, most: int) -> list[str]:
        """Returns the names of at most ``most`` keys with a document, in order, that are greater than ``after``."""
        return list(islice(self._present.after(after), most))

    def fold(self, placed: Placed) -> ViewStep:
        """Folds the next event of the log."""
        event = placed.event
        if event is None:
            return _NO_EVENT
        name = name_of(event.key)
        cell = self._use(name)
        if cell is None:
            cell = self._cells[name] = Cell(event.key, name, placed.partition, KeyState())
            self._in_use.cells[cell] = self._me
            self._absent[name] = None
        elif cell.partition != placed.partition:
            self._active[cell.partition].remove(name)
            cell.partition = placed.partition
        state = cell.state
        folded = fold(state, placed, self.context)
        cell.touched_at = placed.published_at
        active = self._active[placed.partition]
        for idle in active.touch(name, placed.published_at):
            self._trim(idle, active.now or 0)
        before, head = cell.head, None
        if folded.changed:
            if event.stamp is not None:
                self._remember(name, event.stamp, folded, state)
            head = self._put(cell, state.document, folded.version, folded.previous, placed)
        if len(self._absent) > self._absences:
            self._forget()
        return ViewStep(folded, head, before, state)

    def check_all_seen(self, now: int) -> int | None:
        """Looks for keys with documents that were not seen and that brokers may still compute from (``core/fold/joining``).

        Returns when there will be no such key any more, if no other event comes; None: there is none now. Both times are milliseconds since
        1970, by the log's clock.
        """
        window = self.context.window_ms
        missing: list[int] = []
        for name, kept in self._cells.items():
            touched_at = Header.of(kept).touched_at if isinstance(kept, bytes) else kept.touched_at
            joined = _state_of(name, kept).joined if touched_at > now - window and _has_leftovers(kept) else None
            if joined is not None and joined is not ALONE and joined.first_at > now - window:
                missing.append(joined.first_at + window)
        return max(missing, default=None)

    def loaded(self) -> None:
        """Notes that the log as it was when it was opened has been taken: from now on a key without events is truly absent."""
        self.context = self.context._replace(joining=False)

    def copy(self) -> Copy:
        """Returns what another process needs to continue this view."""
        names, cells = list(dict.keys(self._cells)), list(dict.values(self._cells))  # in a tenth of the time that the order takes
        times = {partition: active.now for partition, active in self._active.items() if active.now is not None}
        resting = [kept if isinstance(kept, bytes) else to_bytes(kept) for kept in cells]
        return Copy(names, resting, self.number, dict(self.forgotten), times, list(self._requests.items()), self.document_bytes)

    def restore(self, copy: Copy) -> None:
        """Fills an empty view with the content of another one. Never blocks other threads for long.

        Raises:
            ValueError, TypeError: this is not what ``copy`` returns.
        """
        self.number, self.forgotten, self.document_bytes = copy.number, dict(copy.forgotten), copy.document_bytes
        there: list[str] = []
        active: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        idle_before = {partition: now - WINDOWS * self.context.window_ms for partition, now in copy.times.items()}
        headers = list(map(Header.of, copy.cells))
        numbers = [header.number for header in headers]
        for at in sorted(range(len(headers)), key=numbers.__getitem__):
            name, header = copy.names[at], headers[at]
            partition, touched_at = header.partition, header.touched_at
            self.head_count += header.number > 0
            if header.has_document:
                there.append(name)
            else:
                self._absent[name] = None
            is_active = not header.has_document and touched_at >= idle_before.get(partition, touched_at + 1)
            if is_active or header.end != len(copy.cells[at]):
                active[partition].append((name, touched_at))
            self._cells[name] = copy.cells[at]
        for run in _in_order(there):
            for name in run:
                self._present.add(name)
        for partition, now in copy.times.items():
            self._active[partition].begin(sorted(active[partition], key=itemgetter(1)), now)
        self._requests.update(copy.requests[-RECENT:])

    def limit(self) -> None:
        """Turns the cells of this view, or of others, that are too many in use into bytes."""
        in_use = self._in_use.cells
        while len(in_use) > self._in_use.most:
            cell, owner = in_use.popitem(last=False)
            view = owner()
            if view is not None:
                view.put_to_rest(cell)

    def put_to_rest(self, cell: Cell) -> None:
        """Turns a cell into bytes."""
        if self._cells.get(cell.name) is not cell:
            return
        data = self._cells[cell.name] = to_bytes(cell)
        header = Header.of(data)
        if header.has_document and header.end == len(data):
            self._active[cell.partition].remove(cell.name)

    def _use(self, name: str) -> Cell | None:
        """Returns the cell of a name, for a caller that may change it before others are used; None: there is none."""
        in_use = self._in_use.cells
        if len(in_use) > self._in_use.most:
            self.limit()
        kept = self._cells.get(name)
        if kept is None:
            return None
        if isinstance(kept, bytes):
            kept = self._cells[name] = from_bytes(name, kept)
        in_use[kept] = self._me
        in_use.move_to_end(kept)
        return kept

    def _head(self, name: str) -> Head | None:
        kept = self._cells.get(name)
        return _head_of(name, kept) if kept is not None else None

    def _put(self, cell: Cell, document: Document | None, version: Position, previous: Position, placed: Placed) -> Head:
        """Gives a cell another head, and moves it to the end of the orders by last change."""
        before, size = cell.head, documents.size(document) if document is not None else 0
        head = Head(cell.key, document, version, previous, placed, self.number + 1, placed.partition, size)
        there, was_there = document is not None, before is not None and before.document is not None
        if there is not was_there:
            if there:
                self._present.add(cell.name)
                del self._absent[cell.name]
            else:
                self._present.remove(cell.name)
                self._absent[cell.name] = None
        elif not there:
            self._absent.move_to_end(cell.name)
        if before is None:
            self.head_count += 1
            self.document_bytes += size
        else:
            self.document_bytes += size - before.size
        cell.head = head
        self._cells.move_to_end(cell.name)
        self.number = head.number
        return head

    def _remember(self, name: str, stamp: Stamp, folded: Folded, state: KeyState) -> None:
        """Keeps the request of an event of ours that was just folded, if it certainly was applied; the first answer to a request stays.

        While events of the key may be missing (``KeyState.joining``) that is certain only of an event without conditions.
        """
        if folded.status is not Status.APPLIED or not stamp.request_id or not folded.previous:
            return
        if state.joined is not None and state.joining and conditional(stamp):
            return
        requests = self._requests
        requests.setdefault(_request_name(name, stamp.request_id), f"{stamp.digest} {folded.version} {folded.previous}")
        if len(requests) > RECENT:
            requests.popitem(last=False)

    def _trim(self, name: str, now: int) -> None:
        """Drops what an idle key does not need any more."""
        kept = self._cells[name]
        if not isinstance(kept, bytes):
            kept.state.trim(now, self.context.window_ms)
        elif (header := Header.of(kept)).is_owed:
            cell = from_bytes(name, kept)
            cell.state.trim(now, self.context.window_ms)
            self._cells[name] = to_bytes(cell)
        else:
            self._cells[name] = kept[: header.end]

    def _forget(self) -> None:
        """Forgets the keys that have been absent longest, but none for which a repair is due or an event may still come."""
        for _ in range(_AT_A_TIME):
            name = next(iter(self._absent))
            kept = self._cells[name]
            if any(name in active for active in self._active.values()) or is_due(kept) or _has_leftovers(kept):
                self._absent.move_to_end(name)
                continue
            head = _head_of(name, kept)
            del self._cells[name], self._absent[name]
            if head is not None:
                self.head_count -= 1
                self.forgotten[head.partition] = max(self.forgotten.get(head.partition, ""), head.position)
            if len(self._absent) <= self._absences:
                return


def _head_of(name: str, kept: Kept) -> Head | None:
    return head_from_bytes(name, kept) if isinstance(kept, bytes) else kept.head


def _state_of(name: str, kept: Kept) -> KeyState:
    """Returns the state of a cell. One at rest stays so: then the state is a copy."""
    return from_bytes(name, kept).state if isinstance(kept, bytes) else kept.state


def _has_leftovers(kept: Kept) -> bool:
    """Returns whether a cell has something that is needed only for a while."""
    if isinstance(kept, bytes):
        return Header.of(kept).end != len(kept)
    state = kept.state
    return state.owed is not None or state.older is not None or state.superseded_ids is not None or state.joined not in (None, ALONE)


def _in_order(names: Sequence[str]) -> Iterator[list[str]]:
    """Yields names in order, some at a time."""
    borders = sorted(names[:: _RUN // 16])[15::16]
    runs: list[list[str]] = [[] for _ in range(len(borders) + 1)]
    for name in names:
        runs[bisect_right(borders, name)].append(name)
    for run in runs:
        run.sort()
        yield run


def _request_name(key_name: str, request_id: str) -> str:
    """Returns the name of a request of a key; the length of the id comes first, so that no two requests have the same name."""
    return f"{chr(len(request_id))}{request_id}{key_name}"
