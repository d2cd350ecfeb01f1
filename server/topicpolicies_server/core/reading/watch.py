"""The watch hub: turns the changes of one namespace's view into any number of streams.

The hub sends nothing. It tells each change to the watchers whom it concerns (``watcher``): those keep what they are owed, wake whoever
reads them, and are read when there is room. A watcher that is never read costs references to changes, bounded by its keys (LATEST) or
by the ring (EVERY), and delays nobody. What a change costs depends on who wants it, not on how many keys or topics there are; for those
of a whole namespace that have everything it is one entry of their ``feed``, and the runs that they take from it are made once. So are
those of a snapshot, for all that begin while nothing changes.

A watcher begins with a snapshot (references to what is immutable, so it is consistent and cheap; what is frozen is thawed as it is taken),
is told once that it is synced, and then gets the changes. One that resumes skips the snapshot: LATEST from the view, whose heads stand in
the order of their last change, EVERY from the ring of the recent changes (``ring``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from operator import ge
from weakref import WeakValueDictionary

from ..names import Scope
from ..policies.events import ABSENT, Position
from .cells import Trace
from .feed import Feed
from .heads import Head
from .horizon import Horizon
from .places import Lagged, Mode, OutOfRange, Replaced, Selection, Token
from .ring import RING, Ring
from .runs import Lot
from .standing import Batch, Watcher
from .view import View
from .watcher import Every, Latest

__all__ = ["RING", "Batch", "Lagged", "Mode", "OutOfRange", "Replaced", "Selection", "Token", "WatchHub", "Watcher"]


_ALL = Selection(None)


class WatchHub:
    """The watchers of one namespace, and the ring of its recent changes."""

    def __init__(self, view: View, token: Token, ring: int = RING, horizon: tuple[Position, ...] | None = None) -> None:
        """A hub without watchers.

        Args:
            view: what is watched.
            token: where it stands.
            ring: changes that the ring keeps.
            horizon: behind which positions the view's heads tell of every key that has changed; None: where it stands.
        """
        self.view = view
        self.ring = Ring(ring, token.positions)
        self._token = token
        self._horizon = Horizon(token.positions if horizon is None else horizon)
        self._began = token, view.number
        """Where the view stood as it began to serve: from there on its changes came in the order of the log."""
        self._watchers: dict[Watcher, None] = {}
        """In the order in which they came, which is that in which they are woken; as in the groups below."""
        self._everywhere: OrderedDict[Watcher, None] = OrderedDict()  # in a dict those that have gone would be walked over for ever
        """Of the whole namespace, and in no feed."""
        self._feeds: dict[frozenset[Scope], Feed] = {}
        self._lots: WeakValueDictionary[tuple[frozenset[Scope], Token | None], Lot] = WeakValueDictionary()
        """Snapshots that somebody still reads, and what came since a token; None: since the beginning."""
        self._by_topic: dict[str, dict[Watcher, None]] = {}

    @property
    def token(self) -> Token:
        """Where the view stands."""
        return self._token

    @property
    def watchers(self) -> int:
        """How many there are."""
        return len(self._watchers)

    @property
    def ring_start(self) -> int:
        """The number of the oldest change in the ring, or of the next one if it is empty."""
        return self.ring.start(self.view.number + 1)

    def moved(self, token: Token) -> None:
        """The view has come to this place, whether or not that changed a head."""
        self._token = token

    def in_order(self) -> None:
        """From here on the view's changes come in the order of the log."""
        self._began = self._token, self.view.number

    def publish(self, change: Head) -> None:
        """A head has changed. Tells the watchers whom it concerns; never blocks, and runs none of their code but ``wake``.

        To be told before ``moved`` says that the view has come there.
        """
        self.ring.append(change)
        if change.takes_back:
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
        """The log was opened anew, and another view has replaced the view.

        LATEST watchers notice nothing but the changes. What EVERY watchers are owed may have been compacted away: they are behind. If it is
        another log, or the log has fewer partitions than before, watchers of both modes have to begin anew (``Replaced``).

        Args:
            view: the new one.
            token: where it stands.
            changes: what ``View.succeed`` found.
            horizon: behind which positions what it has read tells of every key that has changed; None: where it stands.
        """
        older = self._token
        same_log = token.log == older.log and len(token.positions) >= len(older.positions)
        since = token.positions if horizon is None else horizon
        if same_log:
            self._token = older.widened(len(token.positions))
            self._horizon.opened_anew(older.positions, since)
        else:
            self._horizon = Horizon(since)
        for watcher in self._watchers:  # they stand where the view stood until now, or ahead
            ahead = watcher.ahead
            known = ahead is None or (same_log and self._horizon.serves(ahead.widened(len(token.positions)).positions))
            watcher.superseded(same_log=same_log, known=known)
        self.view = view
        self._began = token, view.number
        self.ring.clear(token.positions)
        for change in changes:
            self.publish(change)
            if same_log and self._was_told_otherwise(change):
                self._horizon.begin(change.partition, token.positions[change.partition])
        self._token = token

    def subscribe(self, selection: Selection, mode: Mode, token: Token | None, wake: Callable[[], None]) -> Watcher:
        """A new watcher, with a snapshot or from a token on.

        Args:
            selection: what it wants.
            mode: what it is owed.
            token: where to resume; None: begin with a snapshot.
            wake: called, at most once between two takes, when there is something to take. Must not block or raise.

        Raises:
            OutOfRange: the token can't be resumed from.
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
        """Forgets a watcher; one that is not there is no error."""
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
        """All documents of these scopes, as of now: the same lot for all that ask before anything changes."""
        return self._shared_lot(scopes, None, lambda: self.view.documents(scopes))

    def lot_since(self, token: Token, selection: Selection) -> Lot:
        """The heads that changed behind a place, and are wanted, in the order of their last change: shared likewise, if of all topics."""
        if selection.topics is not None:
            return Lot(self.changed_since(token, selection), self.view.number)
        return self._shared_lot(selection.scopes, token, lambda: self.changed_since(token, selection))

    def _shared_lot(self, scopes: frozenset[Scope], token: Token | None, heads: Callable[[], Sequence[Head]]) -> Lot:
        lot = self._lots.get((scopes, token))
        if lot is None or lot.number != self.view.number:
            lot = self._lots[scopes, token] = Lot(heads(), self.view.number)
        return lot

    def enter(self, watcher: Watcher) -> Feed | None:
        """A watcher has everything: from now on the feed of those like it owes it what comes. None: there is none for it."""
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
        """A watcher keeps itself what it is owed."""
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
        """Wakes every watcher: something about the namespace itself has changed."""
        for watcher in self._watchers:
            watcher.signal()

    def changed_since(self, token: Token, selection: Selection = _ALL) -> Sequence[Head]:
        """The heads that changed behind a place of this log, and are wanted, in the order of their last change.

        What came since the view began to serve stands in the order of the log. So no more is looked at than what is newer, and of each
        partition that has gone on the newest that is not.
        """
        began, number = self._began
        in_order = token.reaches(began)
        going_on = {partition for partition, end in enumerate(self._token.positions) if end > token.positions[partition]}
        changes: list[Trace] = []
        for trace in self.view.traces():
            if in_order and (trace.number <= number or not going_on):
                break
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
        """Whether a change is not one, as it comes without a new event: the view before had it wrong. One absence is like another."""
        is_news = change.document is not None or change.previous != ABSENT
        return is_news and change.placed is not None and not self._token.is_before(change)

    def _is_known(self, token: Token) -> bool:
        """Whether the heads tell of every key that has changed behind a place. Deletions may have been forgotten."""
        forgotten = self.view.forgotten
        remembered = all(at >= forgotten.get(partition, "") for partition, at in enumerate(token.positions))
        return remembered and self._horizon.serves(token.positions)

    def is_beyond(self, token: Token) -> bool:
        """Whether a token of this log names more partitions than there are, or, where nobody else writes, a place behind its end."""
        if token.log != self._token.log:
            return False
        if len(token.positions) > len(self._token.positions):
            return True
        return self.view.context.sole_writer and self.behind(token.widened(len(self._token.positions)))

    def behind(self, token: Token) -> bool:
        """Whether the view has yet to reach a token (of a faster sidecar on the same log)."""
        return not self._token.reaches(token)
