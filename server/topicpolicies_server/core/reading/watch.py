"""The watch hub: passes the changes of one namespace's view on to any number of watchers, one for each stream.

The hub sends nothing. It passes each change to the watchers that want it (``watcher``). These keep the changes that they are owed and wake
their streams, which take from them when gRPC can send. A watcher that is never read keeps references to changes, bounded by its keys
(LATEST) or by the ring (EVERY), and delays no other watcher. The cost of a change depends on the watchers that want it, not on the number
of keys or topics. For the watchers of a whole namespace that are up to date a change is one entry of their ``feed``, and the runs that they
take from it are made once for all. So are the runs of a snapshot, for all watchers that begin while nothing changes.

A watcher begins with a snapshot (references to immutable heads, so it is consistent; frozen heads are thawed as they are taken),
becomes synced once, and then gets the changes. A watcher that resumes from a token gets the changes since instead of a snapshot: in the
mode LATEST from the view, whose heads stand in the order of their last change, in the mode EVERY from the ring of recent changes
(``ring``). A snapshot, or what has changed since a token, is found some at a time when it is taken (``walk``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from operator import ge
from weakref import WeakValueDictionary

from ..names import Scope
from ..policies.events import ABSENT, Position
from . import walk
from .cells import Trace
from .feed import Feed
from .heads import Head
from .horizon import Horizon
from .places import Lagged, Mode, OutOfRange, Replaced, Selection, Token
from .ring import RING, Ring
from .runs import Listed, Lot, LotHeads
from .view import View
from .watcher import Every, Latest
from .watcher_base import Batch, Watcher

__all__ = ["RING", "Batch", "Lagged", "Mode", "OutOfRange", "Replaced", "Selection", "Token", "WatchHub", "Watcher"]


_ALL = Selection(None)


class WatchHub:
    """The watchers of one namespace, and the ring of its recent changes."""

    def __init__(self, view: View, token: Token, ring: int = RING, horizon: tuple[Position, ...] | None = None) -> None:
        """A hub without watchers.

        Args:
            view: the view that is watched.
            token: where the view stands.
            ring: how many changes the ring keeps.
            horizon: the positions after which every key that has changed has a head in the view; None: those of ``token``.
        """
        self.view = view
        self.ring = Ring(ring, token.positions)
        self._token = token
        self._horizon = Horizon(token.positions if horizon is None else horizon)
        self._began = token, view.number
        """Token and last change of the view when it began to serve: since then its changes come in the order of the log."""
        self._watchers: dict[Watcher, None] = {}
        """All watchers, in the order in which they subscribed. In that order they are woken, also within the groups below."""
        self._everywhere: OrderedDict[Watcher, None] = OrderedDict()  # iterating a dict would pass over removed entries again and again
        """The watchers of the whole namespace that are in no feed."""
        self._feeds: dict[frozenset[Scope], Feed] = {}
        self._lots: WeakValueDictionary[tuple[frozenset[Scope], Token | None], Lot] = WeakValueDictionary()
        """Lots that watchers are still reading: the changes since a token; None: snapshots."""
        self._by_topic: dict[str, dict[Watcher, None]] = {}

    @property
    def token(self) -> Token:
        """Where the view stands."""
        return self._token

    @property
    def watchers(self) -> int:
        """How many watchers there are."""
        return len(self._watchers)

    @property
    def ring_start(self) -> int:
        """The number of the oldest change in the ring, or of the next one if it is empty."""
        return self.ring.start(self.view.number + 1)

    def moved(self, token: Token) -> None:
        """Notes that the view has come to a place, whether or not that changed a head."""
        self._token = token

    def publish(self, change: Head) -> None:
        """Passes a change on to the watchers that want it. Never blocks, and calls nothing of the streams but ``wake``.

        To be called before ``moved`` with the change's place.
        """
        self.ring.append(change)
        if change.is_correction:
            self._horizon.begin(change.partition, change.place)
            for watcher in self._watchers:
                watcher.leave_feed()
        for watcher in self._everywhere:
            watcher.notify(change)
        for feed in self._feeds.values():
            if change.key.scope in feed.scopes:
                feed.append(change, self._token, self.ring_start)
        for watcher in self._by_topic.get(change.key.topic, ()):
            watcher.notify(change)

    def succeed(self, view: View, token: Token, changes: Iterable[Head], horizon: tuple[Position, ...] | None = None) -> None:
        """Replaces the view by another one, after the log was opened anew.

        LATEST watchers get the changes, and go on. Changes that EVERY watchers are owed may have been compacted away, so they are BEHIND.
        If it is another log, or the log has fewer partitions than before, watchers of both modes have to begin anew (``Replaced``).

        Args:
            view: the new view.
            token: where the new view stands.
            changes: the changes that ``View.succeed`` returned.
            horizon: the positions after which every key that has changed has a head in the new view; None: those of ``token``.
        """
        older = self._token
        same_log = token.log == older.log and len(token.positions) >= len(older.positions)
        since = token.positions if horizon is None else horizon
        if same_log:
            self._token = older.widened(len(token.positions))
            self._horizon.opened_anew(older.positions, since)
        else:
            self._horizon = Horizon(since)
        for watcher in self._watchers:  # each stands where the old view stood, or ahead of it
            ahead = watcher.ahead
            known = ahead is None or (same_log and self._horizon.serves(ahead.widened(len(token.positions)).positions))
            watcher.superseded(same_log=same_log, known=known)
        self.view = view
        self._lots.clear()  # a watcher that is closed may still have one; and the new view may have no change yet
        self._began = token, view.number
        self.ring.clear(token.positions)
        for change in changes:
            self.publish(change)
            if same_log and self._was_told_otherwise(change):
                self._horizon.begin(change.partition, token.positions[change.partition])
        self._token = token

    def subscribe(self, selection: Selection, mode: Mode, token: Token | None, wake: Callable[[], None]) -> Watcher:
        """Adds and returns a watcher that begins with a snapshot, or resumes from a token.

        Args:
            selection: the wanted keys.
            mode: LATEST or EVERY.
            token: where to resume; None: begin with a snapshot.
            wake: called, at most once between two takes, when there is something to take. Must not block or raise.

        Raises:
            OutOfRange: the watcher can't resume from the token.
        """
        if token is not None:
            token = token.widened(len(self._token.positions))
            self._check(token, mode)
        kind = Latest if mode is Mode.LATEST else Every
        watcher = kind(self, selection, token, wake)
        self._watchers[watcher] = None
        if selection.topics is None:
            self._everywhere[watcher] = None
        else:
            for topic in selection.topics:
                self._by_topic.setdefault(topic, {})[watcher] = None
        return watcher

    def unsubscribe(self, watcher: Watcher) -> None:
        """Removes a watcher, if it is there."""
        self._watchers.pop(watcher, None)
        self._everywhere.pop(watcher, None)
        self._leave_feed(watcher)
        for topic in watcher.selection.topics or ():
            group = self._by_topic.get(topic)
            if group is not None:
                group.pop(watcher, None)
                if not group:
                    del self._by_topic[topic]

    def lot(self, scopes: frozenset[Scope]) -> Lot:
        """Returns all heads with a document of these scopes, as of now: one lot, shared by all callers until the next change."""
        return self._shared_lot(scopes, None, lambda: self.view.documents(scopes))

    def lot_since(self, token: Token, selection: Selection) -> Lot:
        """Returns the wanted heads that changed after a place, in the order of their last change; shared, too, if of all topics."""
        keys = selection.keys()
        if keys is not None:
            return Lot(self.view.stood(keys, token.is_before), self.view.number)
        return self._shared_lot(selection.scopes, token, lambda: self._all_since(token, selection))

    def _all_since(self, token: Token, selection: Selection) -> LotHeads:
        few = self.changed_since(token, selection, walk.LOOKS)
        return self.view.changed(selection.scopes, token.is_before) if few is None else Listed(few)

    def _shared_lot(self, scopes: frozenset[Scope], token: Token | None, heads: Callable[[], LotHeads]) -> Lot:
        lot = self._lots.get((scopes, token))
        if lot is None or lot.number != self.view.number:
            lot = self._lots[scopes, token] = Lot(heads(), self.view.number)
        return lot

    def enter(self, watcher: Watcher) -> Feed | None:
        """Adds a watcher that is up to date to the feed of its scopes, and returns the feed; None: it does not watch a whole namespace."""
        if watcher not in self._everywhere:
            return None
        del self._everywhere[watcher]
        scopes = watcher.selection.scopes
        feed = self._feeds.get(scopes)
        if feed is None:
            feed = self._feeds[scopes] = Feed(scopes)
        feed.enter(watcher)
        return feed

    def leave(self, watcher: Watcher) -> None:
        """Removes a watcher from its feed: it keeps what it is owed itself."""
        self._leave_feed(watcher)
        self._everywhere[watcher] = None

    def _leave_feed(self, watcher: Watcher) -> None:
        scopes = watcher.selection.scopes
        feed = self._feeds.get(scopes)
        if feed is not None:
            feed.leave(watcher)
            if not len(feed):
                del self._feeds[scopes]

    def wake_all(self) -> None:
        """Wakes the streams of all watchers: something about the namespace itself has changed."""
        for watcher in self._watchers:
            watcher.signal()

    def changed_since(self, token: Token, selection: Selection = _ALL, looks: int | None = None) -> Sequence[Head] | None:
        """Returns the wanted heads that changed after a place of this log, in the order of their last change.

        None: that can't be found out by looking at ``looks`` heads.

        The changes since the view began to serve are in the order of the log. So if the place is not before that, the walk from the newest
        change ends once each partition with events after the place has shown a head at or before it.
        """
        began, number = self._began
        in_order = token.reaches(began)
        going_on = {partition for partition, end in enumerate(self._token.positions) if end > token.positions[partition]}
        changes: list[Trace] = []
        for looked, trace in enumerate(self.view.traces()):
            if in_order and (trace.number <= number or not going_on):
                break
            if looked == looks:
                return None
            if token.is_before(trace):
                if selection.includes(trace.key):
                    changes.append(trace)
            elif trace.placed:
                going_on.discard(trace.partition)
        changes.reverse()
        return self.view.traced(changes)

    def _check(self, token: Token, mode: Mode) -> None:
        if token.log != self._token.log or len(token.positions) != len(self._token.positions):
            raise OutOfRange("the token belongs to another log")
        known = self._is_known(token) if mode is Mode.LATEST else all(map(ge, token.positions, self.ring.horizon))
        if not known:
            raise OutOfRange("the token is older than what is still known here", older=True)
        if self.view.context.sole_writer and self.behind(token):
            raise OutOfRange("the token is ahead of the log")

    def _was_told_otherwise(self, change: Head) -> bool:
        """Returns whether a change comes without a new event: it corrects the view before. A change between two absences does not count."""
        is_news = change.document is not None or change.previous != ABSENT
        return is_news and change.placed is not None and not self._token.is_before(change)

    def _is_known(self, token: Token) -> bool:
        """Returns whether every key that has changed after a place has a head. Deletions may have been forgotten."""
        forgotten = self.view.forgotten
        remembered = all(at >= forgotten.get(partition, "") for partition, at in enumerate(token.positions))
        return remembered and self._horizon.serves(token.positions)

    def is_beyond(self, token: Token) -> bool:
        """Returns whether a token of this log has more partitions than the log, or, where only this sidecar writes, is ahead of it."""
        if token.log != self._token.log:
            return False
        if len(token.positions) > len(self._token.positions):
            return True
        return self.view.context.sole_writer and self.behind(token.widened(len(self._token.positions)))

    def behind(self, token: Token) -> bool:
        """Returns whether the view has yet to reach a token (of a faster sidecar on the same log)."""
        return not self._token.reaches(token)
