"""Watching: each watcher gets the state of its namespace, then SYNCED, then the changes, and none that is slow delays another.

The hub sends nothing. It notifies watchers of changes, and they take what they are owed when their streams can send. A watcher is synced,
once, when it has taken everything that it is owed: that is the state of that moment.

A watcher reads its snapshot page by page, of the namespace or of its topics. Then it is a place in the ring of recent changes, and keeps
nothing else. One that resumes from a token begins at that place. If the ring does not go back so far, or the watcher has fallen out of it,
it looks at the newest heads; if very many have changed since, it reads pages again. A page of the namespace, and a run of the ring, is made
and serialized once for all that take the same.

A watcher has lagged (``Lagged``) if it can't be given what it is owed. EVERY: changes have left the ring. LATEST: deletions are forgotten,
or a head was corrected with a version that watchers were sent already (``WatchHub.publish``): readers that compare versions would keep the
wrong document. When their view is replaced, because the log was opened anew and compacted meanwhile, all have lagged, and resume from
where they stand if nothing behind that can be gone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import ge
from typing import Any, NamedTuple, NoReturn

from ..names import PolicyKey, Scope
from ..policies.events import ABSENT, Position
from .cell import Before, Head, key_of
from .tokens import Lagged, Mode, OutOfRange, Replaced, Selection, Token
from .view import HeadPlace, View

RING_BYTES = 20 << 20
"""How many bytes of documents a ring keeps, about; they take thrice as much memory with those before them, and serialized."""
KEPT = 16
"""How many pages, and how many runs, are kept for other watchers: a watcher that is never read must not keep what was made for others."""
LOOKS = 1_024
"""How many heads are looked at to find out what has changed since a place, at most."""
TAKEN_BYTES = 60 << 10
"""About how many bytes (``Head.sent_bytes``) are taken at once; a single change may have more."""


class Taken(NamedTuple):
    """What one call of ``Watcher.take`` returns."""

    heads: Sequence[Head]
    more: bool
    """Whether more changes can be taken at once; if not, the watcher is synced."""
    made: dict[Hashable, Any]
    """What was made of these changes, such as their serialized form: filled by those who make it, for all who take the same changes."""
    token: Token | None
    """The watcher's token after these changes; None: it has none (``Watcher.token``)."""


class Run(NamedTuple):
    """Changes in the order of the ring."""

    heads: Sequence[Head]
    end: int
    """The place behind them."""
    made: dict[Hashable, Any]
    """See ``Taken``."""


class Page(NamedTuple):
    """Heads in the order of their keys."""

    heads: Sequence[Head]
    last: PolicyKey | None
    """The last key that was looked at; None: there are no more."""
    made: dict[Hashable, Any]
    """See ``Taken``."""


class WatchHub:
    """The watchers of one namespace, and the ring of its recent changes, whose places are the numbers of the changes (``Head.number``)."""

    def __init__(self, view: View, token: Token, ring: int, horizon: tuple[Position, ...] | None = None) -> None:
        """A hub without watchers.

        ``ring``: how many changes the ring keeps. ``horizon``: the positions after which every key that has changed has a head in the view;
        None: those of ``token``.
        """
        self.view = view
        self.ring: deque[Head] = deque()
        """The recent changes, up to a bound, the oldest first."""
        self.first = view.number + 1
        """The place of the first of them."""
        self._most = ring
        self._bytes = 0
        """Bytes of the documents in the ring."""
        self._complete = list(token.positions)
        """By partition, the position after which the ring has every change."""
        self.token = token
        """Where the view stands; whoever moves the view sets it, after the changes were published."""
        self._horizon = list(token.positions if horizon is None else horizon)
        """By partition, the position before which no watcher can resume: events there may be gone, or heads were corrected."""
        self._began = token, view.number
        """Token and last change of the view when it began to serve: since then its changes come in the order of the log."""
        self._watchers: dict[Watcher, None] = {}
        self._by_topic: dict[str, dict[Watcher, None]] = {}
        self.waiting: dict[Watcher, None] = {}
        """The watchers of the whole namespace that have taken everything."""
        self._runs: OrderedDict[tuple[int, int, Selection, bool], Run] = OrderedDict()
        """Runs of the ring that were taken since the last change."""
        self._pages: OrderedDict[tuple[frozenset[Scope], PolicyKey | None, int, Token | None], Page] = OrderedDict()
        """Pages that were taken, and of which no key has changed since."""
        self.reading: set[Watcher] = set()
        """The watchers that take pages."""

    def publish(self, head: Head, before: Head | None) -> None:
        """Passes a change on to the watchers that want it. Never blocks, and calls nothing of the streams but ``notify``.

        ``before``: the head before it, whose document it has as ``Head.before`` as long as it is in the ring; None: there was none.

        A head may correct one that watchers were sent with the same version, or a greater one: a reader that compares versions would ignore
        it. A change from one absence to another corrects nothing.

        ``token`` must still say where the view stood before it.
        """
        key, ring = head.key, self.ring
        if head.previous:
            head.before = Before(before.document, before.size) if before is not None else Before(None)
        while ring and (len(ring) >= self._most or self._bytes + head.size > RING_BYTES):
            self._drop()
        ring.append(head)
        self._bytes += head.size
        self._runs.clear()
        if self._pages:
            self._drop_pages(key)
        still_absent = head.document is None and head.before is not None and head.before.document is None
        if head.version <= head.previous and not still_absent:
            self._horizon[head.partition] = max(self._horizon[head.partition], head.position)
            for watcher in self._watchers:
                if watcher.mode is Mode.LATEST and watcher.selection.includes(key) and watcher.is_behind(head):
                    watcher.end(Lagged)
        for watcher in (*self.waiting, *self._by_topic.get(key.topic, ())):
            if watcher.has_all and key.scope in watcher.selection.scopes:
                watcher.published(head)

    def subscribe(self, selection: Selection, mode: Mode, token: Token | None, notify: Callable[[], None]) -> Watcher:
        """Adds and returns a watcher that begins with a snapshot, or resumes from a token.

        ``notify``: called when there is something to take. Must not block or raise.

        Raises:
            OutOfRange: the watcher can't resume from the token.
        """
        if token is not None:
            token = Token(token.log, token.widened(len(self.token.positions)).positions)
            if token.log != self.token.log:
                raise OutOfRange("the token belongs to another log")
            if self.is_beyond(token):
                raise OutOfRange("the token is ahead of the log")
            if not (self.knows_since(token) if mode is Mode.LATEST else self.has_since(token)):
                raise OutOfRange("the token is older than what is still known here", older=True)
        watcher = Watcher(self, selection, mode, token, notify)
        for topic in selection.topics or ():
            self._by_topic.setdefault(topic, {})[watcher] = None
        self._watchers[watcher] = None
        return watcher

    def unsubscribe(self, watcher: Watcher) -> None:
        """Removes a watcher, if it is there."""
        self._watchers.pop(watcher, None)
        self.release(watcher)
        for topic in watcher.selection.topics or ():
            group = self._by_topic.get(topic, {})
            group.pop(watcher, None)
            if not group:
                self._by_topic.pop(topic, None)

    def replace(self, why: type[Lagged | Replaced], *, trusted: bool) -> None:
        """Ends all watchers, because another view and hub take the place of these.

        ``trusted``: whether what they were sent was right, so that they may go on from where they stand.
        """
        for watcher in list(self._watchers):
            watcher.end(why)
            watcher.resumable &= trusted

    # --- called by watchers ----------------------------------------------------------------------------------------

    def release(self, watcher: Watcher) -> None:
        """Notes that a watcher needs no pages, nor to be notified. No page is kept when no watcher needs it."""
        self.waiting.pop(watcher, None)
        self.reading.discard(watcher)
        if not self.reading:
            self._pages.clear()

    def run(self, at: int, most: int, selection: Selection, *, every: bool) -> Run:
        """Returns at most ``most`` selected changes from a place in the ring on.

        ``every``: also those that newer changes of the same key have superseded.
        """
        wanted = at, most, selection, every
        run = self._runs.get(wanted)
        if run is None:
            heads: list[Head] = []
            ring, first, size = self.ring, self.first, 0
            end = first + len(ring)
            for place, head in enumerate(islice(ring, at - first, None), at):
                if selection.includes(head.key) and (every or self.view.is_newest(head)):
                    size += head.sent_bytes
                    if heads and (len(heads) == most or size > TAKEN_BYTES):
                        end = place
                        break
                    heads.append(head)
            run = self._runs[wanted] = Run(heads, end, {})
            if len(self._runs) > KEPT:
                self._runs.popitem(last=False)
        return run

    def page(
        self, scopes: frozenset[Scope], keys: Sequence[PolicyKey] | None, after: PolicyKey | None, most: int, since: Token | None
    ) -> Page:
        """Looks at the next ``most`` of some keys. Returns their heads; if ``since`` is given, those that changed after it.

        ``keys``: in order; None: all keys of these scopes with a document.
        """
        wanted = scopes, after, most, since
        page = self._pages.get(wanted) if keys is None else None
        if page is None:
            if keys is None:
                found, more = self.view.page(scopes, after, most, TAKEN_BYTES)
            else:
                begin = bisect_right(keys, after) if after is not None else 0
                found = [self.view.head(key) or Head(key, None, ABSENT, "", None, 0) for key in keys[begin : begin + most]]
                more = begin + most < len(keys)
            looked_at = _fitting(found)
            more = more or len(looked_at) < len(found)
            heads = looked_at if since is None else [head for head in looked_at if head.number and since.is_before(head)]
            page = Page(heads, looked_at[-1].key if more else None, {})
            if keys is None:
                self._pages[wanted] = page
                if len(self._pages) > KEPT:
                    self._pages.popitem(last=False)
        return page

    def _drop(self) -> None:
        """Drops the oldest change of the ring. It forgets the document before it, because heads are kept for long."""
        gone = self.ring.popleft()
        self.first += 1
        self._bytes -= gone.size
        gone.forget_before()
        if gone.placed is not None:
            partition = gone.placed.partition
            self._complete[partition] = max(self._complete[partition], gone.placed.position)

    def _drop_pages(self, key: PolicyKey) -> None:
        """Drops the pages in which a key stood, or would stand now."""
        for wanted, page in list(self._pages.items()):
            after = wanted[1]
            if (after is None or after < key) and (page.last is None or key <= page.last):
                del self._pages[wanted]

    # --- resuming --------------------------------------------------------------------------------------------------

    def has_since(self, token: Token) -> bool:
        """Returns whether the ring has every change after a place of this log."""
        return all(map(ge, token.positions, self._complete))

    def place_behind(self, token: Token) -> int:
        """Returns the place in the ring of the first change after a place of this log. Of several partitions, others may follow."""
        found, going_on = self.view.number + 1, self._partitions_behind(token)
        for head in reversed(self.ring):
            if not going_on:
                break
            if token.is_before(head):
                found = head.number
            else:
                going_on.discard(head.partition)
        return found

    def changed_since(self, token: Token, scopes: frozenset[Scope] = frozenset(Scope), looks: int | None = None) -> list[Head] | None:
        """Returns the heads of some scopes that changed after a place of this log, in the order of their last change.

        None: that can't be found out by looking at ``looks`` heads.

        The changes since the view began to serve are in the order of the log. So if the place is not before that, the search from the
        newest change ends once each partition with events after the place has shown a head at or before it.
        """
        began, number = self._began
        in_order = token.reaches(began)
        going_on = self._partitions_behind(token)
        places: list[HeadPlace] = []
        for looked, place in enumerate(self.view.places()):
            if in_order and (place.number <= number or not going_on):
                break
            if looked == looks:
                return None
            if token.is_before(place):
                if key_of(place.name).scope in scopes:
                    places.append(place)
            else:
                going_on.discard(place.partition)
        return [head for place in reversed(places) if (head := self.view.head(key_of(place.name))) is not None]

    def _partitions_behind(self, token: Token) -> set[int]:
        """Returns the partitions that have events after a place of this log."""
        ends = self.token.positions
        return {partition for partition, at in enumerate(token.widened(len(ends)).positions) if at < ends[partition]}

    def knows_since(self, token: Token) -> bool:
        """Returns whether every key that has changed after a place of this log has a head. Deletions may have been forgotten."""
        positions = token.widened(len(self.token.positions)).positions
        forgotten = self.view.forgotten
        known = all(map(ge, positions, self._horizon))
        return known and all(at >= forgotten.get(partition, "") for partition, at in enumerate(positions))

    def is_beyond(self, token: Token) -> bool:
        """Returns whether a token of this log has more partitions than the log, or, where only this sidecar writes, is ahead of it."""
        if token.log != self.token.log:
            return False
        if len(token.positions) > len(self.token.positions):
            return True
        return self.view.context.sole_writer and not self.token.reaches(token)


def _fitting(heads: Sequence[Head]) -> Sequence[Head]:
    """Returns as many of the first heads as may be taken at once (``TAKEN_BYTES``), and at least one if there is any."""
    size = 0
    for count, head in enumerate(heads):
        size += head.sent_bytes
        if size > TAKEN_BYTES and count:
            return heads[:count]
    return heads


class Watcher:
    """One stream's watcher of a namespace: takes the heads that ``_owed`` has, then what is left of the pages, and then of the ring."""

    def __init__(self, hub: WatchHub, selection: Selection, mode: Mode, token: Token | None, notify: Callable[[], None]) -> None:
        """See ``WatchHub.subscribe``."""
        self.selection = selection
        self.mode = mode
        self.notify = notify
        self.has_all = False
        """Whether every change that the hub has was taken."""
        self.since = token
        """The place up to which the reader has all changes, so that none is sent again. It may be ahead of the view: a faster sidecar sent
        them. None: there is none, or the watcher has once taken everything from a view that was past it."""
        self.resumable = token is not None
        """Whether the reader can go on from ``_base``: not before a snapshot is complete."""
        self.ended: type[Lagged | Replaced] | None = None
        """Why nothing more can be taken; None: it can."""
        self._hub = hub
        self._base = token
        """The place up to which everything was taken, unless everything is; None: nothing was, or pages without a place."""
        self._owed: deque[Head] = deque()
        """Heads that are owed before the pages: what was found to have changed, or to be deleted, since the place from which it goes on."""
        self._scan: _Scan | None = None
        """The pages that are owed before the changes in the ring; None: none are."""
        self._scanned: _Scan | None = None
        """The pages that were taken; None: so were the changes behind them."""
        in_ring = token is not None and (selection.topics is None or mode is Mode.EVERY) and hub.has_since(token)
        self._next = hub.place_behind(token) if token is not None and in_ring else 0
        """The place in the ring from which on changes are owed; one before the ring: what is owed has to be looked for."""

    @property
    def token(self) -> Token | None:
        """Where the watcher stands; None while that can't be said by a token: it takes heads in another order than that of the log."""
        in_order = self._scan is None and self._scanned is None
        return self.resume_from if in_order or self.ended is not None else None

    @property
    def resume_from(self) -> Token | None:
        """Where another watcher can go on for the same reader, perhaps taking some changes again; None: only with a snapshot."""
        if self.has_all:
            return self._hub.token if self.since is None else self._hub.token.furthest(self.since)
        return self._base if self.resumable else None

    def is_behind(self, head: Head) -> bool:
        """Returns whether the reader did not have a change when the watch began."""
        return self.since is None or self.since.is_before(head)

    def end(self, why: type[Lagged | Replaced]) -> None:
        """Lets nothing more be taken: ``take`` raises the error from now on. A watcher that has lagged may still be replaced."""
        if self.ended is not Replaced:
            self._base, self.has_all = self.resume_from, False
            self.ended = why
            self._owed.clear()
            self._hub.release(self)
            self.notify()

    def published(self, head: Head) -> None:
        """Notifies the stream of a change that is wanted; everything before it was taken. The hub's token is still that of before it."""
        self._base, self.has_all, self._next = self.resume_from, False, head.number
        self._hub.waiting.pop(self, None)
        self.notify()

    def take(self, most: int) -> Taken:
        """Returns the next changes, at most ``most``.

        Raises:
            Lagged: the watcher can't go on; ``resume_from`` says from where.
            Replaced: the log is another one than when the watcher began.
        """
        if self.ended is not None:
            raise self.ended
        if self.has_all:
            return Taken([], False, {}, self.resume_from)
        hub, every = self._hub, self.mode is Mode.EVERY and self.resumable
        if not self._owed and self._scan is None and self._next < hub.first:
            self._catch_up(every=every)
        in_order = self._scan is None
        heads: Sequence[Head]
        made: dict[Hashable, Any] = {}
        if self._owed:
            heads = self._take_owed(most)
        elif self._scan is not None:
            heads, made = self._take_page(self._scan, most)
        else:
            heads, self._next, made = hub.run(self._next, most, self.selection, every=every)
            if self._scanned is not None or self.since is not None:
                wanted = [head for head in heads if self._is_wanted(head)]
                heads, made = (wanted, {}) if len(wanted) < len(heads) else (heads, made)
        if self._owed or self._scan is not None or self._next <= hub.view.number:
            if in_order and self._base is not None:
                self._base = self._base.moved(heads)
            return Taken(heads, True, made, self.token)
        self.has_all, self.resumable, self._scanned = True, True, None
        if self.since is not None and hub.token.reaches(self.since):
            self.since = None
        if self.selection.topics is None:
            hub.waiting[self] = None
        return Taken(heads, False, made, self.resume_from)

    def _take_owed(self, most: int) -> Sequence[Head]:
        heads = _fitting(list(islice(self._owed, most)))
        for _ in heads:
            self._owed.popleft()
        return heads

    def _take_page(self, scan: _Scan, most: int) -> tuple[Sequence[Head], dict[Hashable, Any]]:
        hub = self._hub
        if scan.keys is not None and scan.since is not None and not hub.knows_since(scan.since):
            self._lag()  # the deletion of a topic that was not looked at may be forgotten
        page = hub.page(self.selection.scopes, scan.keys, scan.last, most, scan.since)
        scan.note(page.last, hub.view.number)
        if page.last is None:
            hub.release(self)
            self._base, self._scanned, self._scan = scan.began, scan, None
        return page.heads, page.made

    def _is_wanted(self, head: Head) -> bool:
        """Returns whether a change was not sent yet, by a page or before the watch began."""
        return not (self._scanned is not None and self._scanned.has_met(head)) and self.is_behind(head)

    def _catch_up(self, *, every: bool) -> None:
        """Looks for what has changed since ``_base``, behind which the ring does not have all changes: the newest change of each key.

        Raises:
            Lagged: not all of it can be found any more.
        """
        hub, base, selection = self._hub, self._base, self.selection
        if base is not None and (every or not hub.knows_since(base)):
            self._lag()
        keys = selection.keys()
        heads = hub.changed_since(base, selection.scopes, LOOKS) if base is not None and keys is None else None
        if heads is not None:
            self._owed.extend(filter(self._is_wanted, heads))
        else:
            self._scan = _Scan(base, hub.token, keys)
            if keys is None:
                hub.reading.add(self)
                if base is not None:
                    self._owed.extend(hub.view.deletions(selection.scopes, base.is_before))
        self._next, self._scanned = hub.view.number + 1, None

    def _lag(self) -> NoReturn:
        self.end(Lagged)
        raise Lagged


@dataclass(slots=True, eq=False)
class _Scan:
    """The pages that a watcher reads of a namespace, and how far it has come."""

    since: Token | None
    """The reader knows what had changed up to here; None: it knows nothing."""
    began: Token
    keys: Sequence[PolicyKey] | None
    """The keys of the wanted topics; None: all topics of the namespace are wanted."""
    last: PolicyKey | None = None
    """The last key that was looked at; None: none was."""
    _lasts: list[PolicyKey] = field(default_factory=list)
    """The last key of each page, but for the last page of all."""
    _numbers: list[int] = field(default_factory=list)
    """The number of the view's last change when each page was read."""

    def note(self, last: PolicyKey | None, number: int) -> None:
        """Notes a page by the last key that was looked at (None: all were) and the view's last change."""
        self.last = last
        self._numbers.append(number)
        if last is not None:
            self._lasts.append(last)

    def has_met(self, head: Head) -> bool:
        """Returns whether the page with a change's key was read after the change."""
        if head.document is None and self.since is not None and self.keys is None:
            return False  # pages of the namespace don't have it, and the reader may know the key
        return head.number <= self._numbers[bisect_left(self._lasts, head.key)]
