"""Watching: each watcher gets the state of its namespace, then SYNCED, then the changes, and none that is slow delays another.

The hub sends nothing. It notifies watchers of changes, and they take what they are owed when their streams can send. What watchers of a
whole namespace take, a page of heads or a run of the ring, is made and serialized once for all that take the same. A watcher is synced,
once, when it has taken everything that it is owed: that is the state of that moment.

A watcher of a whole namespace reads its snapshot page by page, goes on from the ring, and then keeps nothing but its place there. One that
resumes from a token finds its place in the ring. If the ring does not go back so far, or the watcher has fallen out of it, it looks at the
newest heads; if very many have changed since, it reads pages again. A watcher of topics keeps what it is owed.

A watcher has lagged (``Lagged``) if it can't be given what it is owed. EVERY: changes have left the ring. LATEST: deletions are forgotten,
or a head was corrected with a version that watchers were sent already (``WatchHub.publish``): readers that compare versions would keep the
wrong document. When their view is replaced, because the log was opened anew and compacted meanwhile, all have lagged, and resume from
where they stand if nothing behind that can be gone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from operator import ge
from typing import Any, NamedTuple, NoReturn

from ..names import PolicyKey, Scope
from ..policies.events import ABSENT, Position
from .cell import Before, Head, key_of
from .tokens import Lagged, Mode, OutOfRange, Replaced, Selection, Token
from .view import HeadPlace, View

RING = 8192
"""How many changes a ring keeps, by default."""
RING_BYTES = 20 << 20
"""How many bytes of documents a ring keeps, about; they take thrice as much memory with those before them, and serialized."""
KEPT = 16
"""How many pages, and how many runs, are kept for other watchers: a watcher that is never read must not keep what was made for others."""
LOOKS = 1_024
"""How many heads are looked at in one turn, at most."""
TAKEN_BYTES = 60 << 10
"""About how many bytes (``Head.sent_bytes``) are taken at once; a single change may have more."""


class Taken(NamedTuple):
    """What one call of ``Watcher.take`` returns."""

    heads: Sequence[Head]
    synced: bool
    """Whether the SYNCED bookmark is due after these changes (once)."""
    more: bool
    """Whether more changes can be taken at once."""
    made: dict[Hashable, Any]
    """What was made of these changes, such as their serialized form: filled by those who make it, for all who take the same changes."""
    token: Token | None
    """The watcher's token after these changes; None: it has none (``Watcher.token``)."""


class Page(NamedTuple):
    """Heads in the order of their keys."""

    heads: Sequence[Head]
    last: PolicyKey | None
    """The last key that was looked at; None: there are no more."""
    made: dict[Hashable, Any]
    """See ``Taken``."""


class WatchHub:
    """The watchers of one namespace, and the ring of its recent changes, whose places are the numbers of the changes (``Head.number``)."""

    def __init__(self, view: View, token: Token, ring: int = RING, horizon: tuple[Position, ...] | None = None) -> None:
        """A hub without watchers.

        ``ring``: how many changes the ring keeps. ``horizon``: the positions after which every key that has changed has a head in the view;
        None: those of ``token``.
        """
        self.view = view
        self.ring: deque[Head] = deque()
        """The recent changes, up to a bound, the oldest first."""
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
        self._waiting: dict[frozenset[Scope], dict[Watcher, None]] = {}
        """The watchers of the whole namespace that have taken everything, by the scopes that they want."""
        self._runs: OrderedDict[tuple[int, int, frozenset[Scope], bool], tuple[Sequence[Head], int, dict[Hashable, Any]]] = OrderedDict()
        """Runs of the ring that were taken since the last change: the changes, the place behind them, and what was made of them."""
        self._pages: OrderedDict[tuple[frozenset[Scope], PolicyKey | None, int, Token | None], Page] = OrderedDict()
        """Pages that were taken, and of which no key has changed since."""
        self.reading: set[Watcher] = set()
        """The watchers that take pages."""

    @property
    def first(self) -> int:
        """The place of the oldest change in the ring."""
        return self.ring[0].number if self.ring else self.end

    @property
    def end(self) -> int:
        """The place of the next change."""
        return self.view.number + 1

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
                watcher.correct(head)
        for scopes, waiting in self._waiting.items():
            if waiting and key.scope in scopes:
                for watcher in waiting:
                    watcher.owe(head)
                waiting.clear()
        for watcher in self._by_topic.get(key.topic, ()):
            watcher.owe(head)

    def subscribe(self, selection: Selection, mode: Mode, token: Token | None, notify: Callable[[], None]) -> Watcher:
        """Adds and returns a watcher that begins with a snapshot, or resumes from a token.

        ``notify``: called when there is something to take. Must not block or raise.

        Raises:
            OutOfRange: the watcher can't resume from the token.
        """
        if token is not None:
            token = Token(token.log, token.widened(len(self.token.positions)).positions)
            self._check(token, mode)
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

    def notify_all(self) -> None:
        """Wakes the streams of all watchers: something about the namespace itself has changed."""
        for watcher in self._watchers:
            watcher.notify()

    # --- called by watchers ----------------------------------------------------------------------------------------

    def wait(self, watcher: Watcher) -> None:
        """Has a watcher of the whole namespace, which has taken everything, notified of the next change that it wants."""
        self._waiting.setdefault(watcher.selection.scopes, {})[watcher] = None

    def release(self, watcher: Watcher) -> None:
        """Notes that a watcher needs no pages, nor to be notified. No page is kept when no watcher needs it."""
        self._waiting.get(watcher.selection.scopes, {}).pop(watcher, None)
        self.reading.discard(watcher)
        if not self.reading:
            self._pages.clear()

    def run(self, at: int, most: int, scopes: frozenset[Scope], *, every: bool) -> tuple[Sequence[Head], int, dict[Hashable, Any]]:
        """Returns at most ``most`` changes of some scopes from a place in the ring on, the place behind them, and what was made of them.

        ``every``: also those that newer changes of the same key have superseded.
        """
        wanted = at, most, scopes, every
        run = self._runs.get(wanted)
        if run is None:
            heads: list[Head] = []
            first, end = self.first, self.end
            for place in range(at, end):
                head = self.ring[place - first]
                if head.key.scope in scopes and (every or self.view.is_newest(head)):
                    if len(heads) == most:
                        end = place
                        break
                    heads.append(head)
            fitting = _fitting(heads)
            if len(fitting) < len(heads):
                end = heads[len(fitting)].number
            run = self._runs[wanted] = fitting, end, {}
            if len(self._runs) > KEPT:
                self._runs.popitem(last=False)
        return run

    def page(self, scopes: frozenset[Scope], after: PolicyKey | None, most: int, since: Token | None) -> Page:
        """Looks at the next ``most`` keys with a document. Returns their heads; if ``since`` is given, those that changed after it."""
        wanted = scopes, after, most, since
        page = self._pages.get(wanted)
        if page is None:
            found, more = self.view.page(scopes, after, most, TAKEN_BYTES)
            looked_at = _fitting(found)
            more = more or len(looked_at) < len(found)
            heads = looked_at if since is None else [head for head in looked_at if since.is_before(head)]
            page = self._pages[wanted] = Page(heads, looked_at[-1].key if more else None, {})
            if len(self._pages) > KEPT:
                self._pages.popitem(last=False)
        return page

    def _drop(self) -> None:
        """Drops the oldest change of the ring. It forgets the document before it, because heads are kept for long."""
        gone = self.ring.popleft()
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
        found, going_on = self.end, self._partitions_behind(token)
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

    def _check(self, token: Token, mode: Mode) -> None:
        if token.log != self.token.log or len(token.positions) != len(self.token.positions):
            raise OutOfRange("the token belongs to another log")
        known = self.knows_since(token) if mode is Mode.LATEST else self.has_since(token)
        if not known:
            raise OutOfRange("the token is older than what is still known here", older=True)
        if self.view.context.sole_writer and not self.token.reaches(token):
            raise OutOfRange("the token is ahead of the log")

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
    """One stream's watcher of a namespace.

    It takes what ``_owed`` has; if it watches the whole namespace, then what is left of the pages, and then of the ring.
    """

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
        self._hub = hub
        self._ended: type[Lagged | Replaced] | None = None
        self._synced = False
        self._every = mode is Mode.EVERY and self.resumable
        """Whether superseded changes are owed too: in the mode EVERY, but not in a snapshot."""
        self._base = token if token is not None else hub.token
        """The place up to which everything was taken, unless everything is."""
        self._whole = selection.topics is None
        self._owed: OrderedDict[PolicyKey | int, Head | None] = OrderedDict()
        """By number; of topics by key, unless every change is owed. None: the head is not looked up yet. Such keys are the first ones."""
        self._unread = 0
        """How many heads are not looked up yet."""
        self._began = hub.token
        self._next = hub.end
        """The place in the ring from which on changes are owed."""
        self._scan: _Scan | None = None
        """The pages that are owed before the changes in the ring; kept until these are taken."""
        if self._whole and token is not None and hub.has_since(token):
            self._next = hub.place_behind(token)
        elif self._whole and token is not None:
            self._catch_up()
        elif self._whole:
            self._begin_scan(None)
        elif token is not None and self._every:
            self._owed.update((head.number, head) for head in hub.ring if selection.includes(head.key) and token.is_before(head))
        else:
            self._owed.update((key, None) for key in selection.keys() or ())
            self._unread = len(self._owed)

    @property
    def token(self) -> Token | None:
        """Where the watcher stands; None while that can't be said by a token: it takes heads in another order than that of the log."""
        in_order = self._scan is None and not self._unread
        return self.resume_from if in_order or self.has_all or self._ended is not None else None

    @property
    def resume_from(self) -> Token | None:
        """Where another watcher can go on for the same reader, perhaps taking some changes again; None: only with a snapshot."""
        if self.has_all:
            return self._end_token()
        return self._base if self.resumable else None

    def _end_token(self) -> Token:
        """Returns where a watcher stands that has taken everything."""
        return self._hub.token if self.since is None else self._hub.token.furthest(self.since)

    def correct(self, head: Head) -> None:
        """Notes a correction, before it is owed as a change."""
        if self.mode is Mode.LATEST and self.selection.includes(head.key) and (self.since is None or self.since.is_before(head)):
            self.end(Lagged)

    def end(self, why: type[Lagged | Replaced]) -> None:
        """Lets nothing more be taken: ``take`` raises the error from now on. A watcher that has lagged may still be replaced."""
        if self._ended is not Replaced:
            if self.has_all:
                self._base, self.has_all = self._end_token(), False
            self._ended = why
            self._owed.clear()
            self._hub.release(self)
            self.notify()

    def owe(self, head: Head) -> None:
        """Notes the newest change of the ring, if it is wanted. The hub's token is still that of before the change.

        Of a whole namespace, it is to be called when everything was taken.
        """
        if self._whole:
            self._next, self._scan = head.number, None
        else:
            passed = self.since is not None and not self.since.is_before(head)
            if head.key.scope not in self.selection.scopes or passed or self._ended is not None:
                return
            key = head.number if self._every else head.key
            if self._owed.get(key, head) is None:
                return  # the newer head will be looked up
            self._owed[key] = head
            self._owed.move_to_end(key)
        if self.has_all:
            self._base, self.has_all = self._hub.token if self.since is None else self._end_token(), False
            self.notify()
        elif self._has_lost_some():
            self.end(Lagged)

    def take(self, most: int) -> Taken:
        """Returns the next changes, at most ``most``.

        Raises:
            Lagged: the watcher can't go on; ``resume_from`` says from where.
            Replaced: the log is another one than when the watcher began.
        """
        if self._ended is not None:
            raise self._ended
        if self.has_all:
            return Taken([], False, False, {}, self._end_token())
        if (self._unread or self._every) and self._has_lost_some():
            self._lag()
        in_order = not self._unread and (self._scan is None or self._scan.complete)
        heads, made = (self._take_owed(most), {}) if self._owed or not self._whole else self._take_rest(most)
        hub, scan = self._hub, self._scan
        if self._owed or (self._whole and ((scan is not None and not scan.complete) or self._next < hub.end)):
            if in_order:
                base = made.get(self._base)
                self._base = made[self._base] = self._base.moved(heads) if base is None else base
            return Taken(heads, False, True, made, self.token)
        synced, self._synced = not self._synced, True
        self.has_all, self.resumable, self._every = True, True, self.mode is Mode.EVERY
        token = hub.token
        if self.since is not None:
            self.since = None if token.reaches(self.since) else self.since
            token = self._end_token()
        if self._whole:
            hub.wait(self)
        return Taken(heads, synced, False, made, token)

    def _take_owed(self, most: int) -> list[Head]:
        heads: list[Head] = []
        size = 0
        for _ in range(min(most, self._unread or len(self._owed))):
            key, head = self._owed.popitem(last=False)
            if isinstance(key, PolicyKey) and head is None:
                head = self._look_up(key)
                self._unread -= 1
                if not self._unread:
                    self._base = self._began
            if head is not None:
                heads.append(head)
                size += head.sent_bytes
                if size >= TAKEN_BYTES:
                    break
        return heads

    def _take_rest(self, most: int) -> tuple[Sequence[Head], dict[Hashable, Any]]:
        """Returns the next changes of a whole namespace from a page or the ring, and what was made of them."""
        hub, scan = self._hub, self._scan
        if scan is not None and not scan.complete:
            if scan.since is None and scan.last is None:
                self._next, scan.began = hub.end, hub.token
            page = hub.page(self.selection.scopes, scan.last, most, scan.since)
            if scan.note(page.last, hub.view.number):
                hub.release(self)
                self._base = scan.began
            return page.heads, page.made
        if self._next < hub.first:
            if self._every or not hub.knows_since(self._base):
                self._lag()
            self._catch_up()
            return [], {}
        heads, self._next, made = hub.run(self._next, most, self.selection.scopes, every=self._every)
        if scan is None and self.since is None:
            return heads, made
        wanted = [head for head in heads if self._is_wanted(head)]
        return (wanted, {}) if len(wanted) < len(heads) else (heads, made)

    def _look_up(self, key: PolicyKey) -> Head | None:
        """Returns the head of a key; None: it has not changed since the token."""
        head = self._hub.view.head(key)
        if self.since is None:
            return head if head is not None else Head(key, None, ABSENT, "", None, 0)
        return head if head is not None and self.since.is_before(head) else None

    def _has_lost_some(self) -> bool:
        """Returns whether some of what ``_owed`` has can't be given any more: deletions are forgotten, or changes have left the ring."""
        if self._unread:
            return self.since is not None and not self._hub.knows_since(self.since)
        first = next(iter(self._owed.values()), None)
        return self._every and first is not None and first.number < self._hub.first

    def _lag(self) -> NoReturn:
        self.end(Lagged)
        raise Lagged

    def _is_wanted(self, head: Head) -> bool:
        """Returns whether a change was not sent yet, by a page or before the watch began."""
        return not (self._scan is not None and self._scan.has_met(head)) and (self.since is None or self.since.is_before(head))

    def _catch_up(self) -> None:
        """Goes on with the newest change of each key that has changed since ``_base``. The hub knows all keys that have."""
        heads = self._hub.changed_since(self._base, self.selection.scopes, LOOKS)
        if heads is None:
            self._begin_scan(self._base)
        else:
            self._owed.update((head.number, head) for head in heads if self._is_wanted(head))
            self._next, self._scan = self._hub.end, None

    def _begin_scan(self, since: Token | None) -> None:
        hub = self._hub
        self._next, self._scan = hub.end, _Scan(since, hub.token)
        if since is not None:
            self._owed.update((head.number, head) for head in hub.view.deletions(self.selection.scopes, since.is_before))
        hub.reading.add(self)


@dataclass(slots=True, eq=False)
class _Scan:
    """The pages that a watcher reads of a namespace, and how far it has come."""

    since: Token | None
    """The reader knows what had changed up to here; None: it knows nothing."""
    began: Token
    complete: bool = False
    last: PolicyKey | None = None
    """The last key that was looked at; None: none was, or all were."""
    _lasts: list[PolicyKey] = field(default_factory=list)
    """The last key of each page, but for the last page of all."""
    _numbers: list[int] = field(default_factory=list)
    """The number of the view's last change when each page was read."""

    def note(self, last: PolicyKey | None, number: int) -> bool:
        """Notes a page by the last key that was looked at (None: all were) and the view's last change. Returns whether it was the last."""
        self.last, self.complete = last, last is None
        self._numbers.append(number)
        if last is not None:
            self._lasts.append(last)
        return self.complete

    def has_met(self, head: Head) -> bool:
        """Returns whether the page with a change's key was read after the change."""
        if head.document is None and self.since is not None:
            return False  # pages don't have it, and the reader may know the key
        return head.number <= self._numbers[bisect_left(self._lasts, head.key)]
