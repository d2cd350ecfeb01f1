"""One opening of a namespace's change log: folds what the log reports into a view, and passes it on.

A follower that is retired changes and reports nothing any more.

A log has to go on whatever comes of its reports. An entry that can't be folded is counted with those that can't be read, and the rest of
its batch is taken. If a part fails on a report, the view is ahead of what that part knows, so the log counts as lost and is read anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from ..checkpoints import Checkpoint, Place, Restored
from ..config import Limits
from ..core.fold.fold import FoldContext
from ..core.policies.events import Event, Placed, Position
from ..core.reading.log_order import Disagreement, LogOrder
from ..core.reading.tokens import Lagged, Replaced, Token
from ..core.reading.view import View
from ..core.reading.watch import WatchHub
from ..core.reasons import LogState, Reason
from ..history.entries import FoldedEntry
from ..history.recorder import Recorder
from ..logs.change_log import LogError, NamespaceLog, Start, anchor_of
from .common import Common
from .updates import Updates

_LOG = logging.getLogger(__name__)
_MOST_LOGGED = 20
"""Different problems of entries that are logged a load; a writer of a log can make any number of them."""
_LOOKS_SECONDS = 0.1
"""How often it is checked whether the log's reader has come as far as a checkpoint."""


class Follower:
    """A ``LogSink`` that keeps a view."""

    def __init__(
        self,
        namespace: str,
        common: Common,
        context: FoldContext,
        updates: Updates,
        older: Follower | None = None,
        recorder: Recorder | None = None,
        restored: Restored | None = None,
    ) -> None:
        """Begins without a log.

        ``older``: the follower of the previous opening, which has ended; its view is continued if nothing that it has not seen was
        compacted away. ``restored``: the view of a checkpoint, with which this follower begins if the log is read from there on.
        """
        self.view = View(context, in_use=common.in_use)
        """The view; empty until the log is open."""
        self.continues = False
        """Whether the view is that of the previous opening, continued."""
        self.trusted = True
        """Whether the log never contradicted what the view was built from."""
        self.log: NamespaceLog | None = None
        """The opened log; None before ``opened``."""
        self.hub: WatchHub | None = None
        """The watchers of the view; None: it does not answer yet, nor continues one that did."""
        self.unreadable = 0
        self.order: LogOrder | None = None
        """Puts read and acknowledged events in order, and knows the view's positions; None: the log is not open."""
        self.counted: tuple[int, int] | None = 0, 0
        """The keys of this view, and the bytes of their documents, as ``Common`` counts them; None: it does not any more."""
        self._came = self._saved = 0
        """How many events came, and how many of them are in the last checkpoint of the view."""
        self._last: dict[int, Placed] = {}
        self._anchors: dict[int, tuple[Position, str]] = {}
        """By partition: position and anchor of the restored checkpoint; used until an entry of the partition comes."""
        self._events: dict[int, Position] = {}
        """By partition: the position of the last event, or of the last entry that could not be read (``Place.events``)."""
        self.is_read = False
        """Whether everything that was in the log when it was opened has been read."""
        self.lost_by: LogError | None = None
        """Why the log is not followed any more: it was lost, or there is no room in memory for what it holds; None: it is."""
        self.changed = asyncio.Event()
        """Set when one of these two has changed."""
        self._namespace = namespace
        self._common = common
        self._context = context
        self._updates = updates
        self._older, self._is_first = older, older is None
        self._recorder = recorder
        self._restored = restored
        self._retired = self._serves = self._caught_up = False
        self._folded: list[FoldedEntry] = []
        self._logged: set[str] = set()
        self._early: list[tuple[Callable[[Sequence[Any]], None], Sequence[Any]]] = []

    @property
    def identity(self) -> str:
        """The log's identity, as it is now: a log that did not exist at the opening may have got its lasting name since."""
        return self.log.identity if self.log is not None else ""

    @property
    def positions(self) -> Sequence[Position]:
        """Where the view stands, by partition; empty before the log is open."""
        return self.order.positions if self.order is not None else ()

    @property
    def place(self) -> Place | None:
        """The view's place in its log; None: it has no log."""
        positions = tuple(self.positions)
        if not positions or not self.identity:
            return None
        anchors = tuple(self._anchor(partition, position) for partition, position in enumerate(positions))
        events = tuple(self._events.get(partition, "") for partition in range(len(positions)))
        return Place(Start(self.identity, positions, anchors, self.view.context.in_place), events)

    def _anchor(self, partition: int, position: Position) -> str:
        """Returns the anchor of the entry at the position up to which a partition was read; "": no known entry stands exactly there."""
        last = self._last.get(partition)
        where, anchor = self._anchors.get(partition, ("", "")) if last is None else (last.position, anchor_of(last))
        return anchor if where == position else ""

    def opened(self, log: NamespaceLog) -> None:
        """Begins with the opened log, and takes what it reported while it was being opened."""
        self.log = log
        if self._retired:
            return
        complete = _complete_after(log)
        older, self._older = self._older, None
        self._context = self._context._replace(in_place=log.in_place)
        if older is not None and older.may_be_continued(self.identity, complete) and older.view.context.in_place == log.in_place:
            self._continue(older, log)
        elif self._restored is not None and log.resumed:
            self._begin_with(self._restored, log)
        elif log.resumed:
            raise LogError(LogState.LOST, f"{self._namespace}: its change log changed while it was opened again. Try again.")
        else:
            self._restored = None
            self.view = View(self._context._replace(complete=complete), in_use=self._common.in_use)
            self.order = LogOrder(log.partitions, log.follows)
        if self.counted != (self.view.head_count, self.view.document_bytes):
            self._count()
        if self._recorder is not None:
            self._record(self._recorder.opened, log)
        early, self._early = self._early, []
        for take, events in early:
            take(events)
        if self._caught_up:
            self.caught_up()

    def serve(self, hub: WatchHub) -> None:
        """Notes that the view answers from now on, and that this hub has its watchers."""
        self._serves, self.hub = True, hub

    def retire(self) -> None:
        """Ends all reports. The view stays where it is, so that another opening can continue it.

        If the log is still being opened, the view of the previous opening stays with the previous follower.
        """
        if not self._retired:
            self._retired = True
            self._older = None
            self._note()
            if self._recorder is not None:
                self._record(self._recorder.closed)
            self._recorder = None

    def forget(self) -> None:
        """Stops counting the view in ``Common``, for good."""
        if self.counted is not None:
            keys, size = self.counted
            self._common.count(-keys, -size)
            self.counted = None

    def let_go(self) -> None:
        """Drops the view and the log, which nothing needs any more. Reference cycles with the log and others would keep them in memory."""
        self.retire()
        self.forget()
        self.view = View(self._context, in_use=self._common.in_use)
        self.log = self.order = self.hub = self._restored = None
        self._early.clear()

    # --- LogSink ------------------------------------------------------------------------------------------------

    def read(self, events: Sequence[Placed]) -> None:
        """Takes events that the log's reader delivered."""
        if self._retired:
            return
        if self.order is None:
            self._early.append((self.read, events))
            return
        if not (self._caught_up or self.continues or self._restored is not None) and self.log is not None:
            self.view.context = self.view.context._replace(complete=_complete_after(self.log))
        try:
            if taken := self.order.read(events):
                self._take(taken)
        except Exception as error:  # noqa: BLE001 (the log is read anew)
            self.fail(error)

    def acknowledged(self, events: Sequence[Placed]) -> None:
        """Takes events of ours that the log acknowledged."""
        if self._retired:
            return
        if self.order is None:
            self._early.append((self.acknowledged, events))
            return
        try:
            if taken := self.order.acknowledged(events):
                self._take(taken)
        except Exception as error:  # noqa: BLE001 (the log is read anew)
            self.fail(error)

    def caught_up(self) -> None:
        """Notes that everything that was in the log at its opening has been read."""
        self._caught_up = True
        if self.order is None or self._retired:
            return
        log = self.log
        assert log is not None, "open"
        try:
            self.order.passed([end or "" for end in _complete_after(log)])
            self.view.loaded()
            if self._recorder is not None:
                self._record(self._recorder.caught_up)
            self.is_read = True
            self.changed.set()
        except Exception as error:  # noqa: BLE001 (the log is read anew)
            self.fail(error)

    def append_failed(self, event: Event, error: LogError) -> None:
        """Deals with an event of ours that was not acknowledged."""
        if self._retired:
            return
        try:
            self._common.activity.append_failures[error.reason] += 1
            if self._serves:
                self._updates.append_failed(event, self.view.state(event.key), error)
        except Exception as failure:  # noqa: BLE001 (the log is read anew)
            self.fail(failure)

    def lost(self, error: LogError) -> None:
        """Notes that the log can't be followed any more."""
        if not self._retired:
            self.lost_by = error
            self.retire()
            self.changed.set()

    def led(self) -> None:
        """Notes that the writer of the log may have changed."""
        if self._serves and not self._retired:
            try:
                self._updates.led()
            except Exception as error:  # noqa: BLE001 (the log is read anew)
                self.fail(error)

    def fail(self, error: Exception) -> None:
        """Has the log count as lost, because what it reported could not be processed. This view is not continued."""
        if isinstance(error, Disagreement):
            _LOG.error("%s: the reader contradicts a proof (%s); the log is read again", self._namespace, error)
            what = f"was found to be inconsistent: {error}"
        else:
            _LOG.error("%s: what the log reported could not be processed; it is read again", self._namespace, exc_info=error)
            what = f"reported what could not be processed ({type(error).__name__})"
        self.trusted = False
        self.lost(LogError(Reason.LOG_UNAVAILABLE, f"The change log of {self._namespace} {what}."))

    # -------------------------------------------------------------------------------------------------------------

    def checkpoint(self) -> Checkpoint | None:
        """Copies the view as it is now; None: it has no place in a log, or is not trusted."""
        place, view = self.place, self.view
        if place is None or not self.trusted:
            return None
        return Checkpoint(self._namespace, place, view.context, self.unreadable, view.copy())

    @property
    def unsaved(self) -> int:
        """How many events came since the last checkpoint of the view."""
        return self._came - self._saved

    async def save(self, seconds: float) -> None:
        """Writes a checkpoint, unless the log's reader has not read what was taken by proof of it within so many seconds."""
        checkpoints = self._common.checkpoints
        loop, events, checkpoint = asyncio.get_running_loop(), self._came, self.checkpoint()
        until = loop.time() + seconds
        while checkpoints is not None and checkpoint is not None and self.trusted:
            if self.order is not None and self.order.is_read(checkpoint.place.start.positions):
                if await checkpoints.write(checkpoint):
                    self._saved = max(self._saved, events)
                return
            if loop.time() >= until:
                return
            await asyncio.sleep(_LOOKS_SECONDS)

    def may_be_continued(self, identity: str, complete: Sequence[Position | None]) -> bool:
        """Returns whether a new opening of the log may continue this view: nothing that the view has not seen was compacted away."""
        if not (self.trusted and identity == self.identity and len(complete) == len(self.positions)):
            return False
        return all(end is not None and end <= here for end, here in zip(complete, self.positions, strict=True))

    def _continue(self, older: Follower, log: NamespaceLog) -> None:
        self.continues, self.view, self.hub = True, older.view, older.hub
        self.order = LogOrder(log.partitions, log.follows, older.positions)
        older.order = None  # its places are not those of the view any more
        self.counted, older.counted = older.counted, (0, 0)
        self._came, self._saved = older._came, older._saved
        self._last, self._anchors, self._events = older._last, older._anchors, older._events

    def _begin_with(self, restored: Restored, log: NamespaceLog) -> None:
        self.view = restored.view
        self.view.share(self._common.in_use)
        start, events = restored.place
        self.order = LogOrder(log.partitions, log.follows, start.positions)
        self.unreadable = restored.unreadable
        self._anchors = dict(enumerate(zip(start.positions, start.anchors, strict=True)))
        self._events = dict(enumerate(events))

    def _take(self, events: Sequence[Placed]) -> None:
        """Folds events, in order, and passes on what they did, and how far the view has come."""
        try:
            for placed in events:
                self._fold(placed)
        finally:
            if self._folded:
                self._note()
            self._came += len(events)
            for placed in events:
                self._last[placed.partition] = placed
                if placed.event is not None or placed.problem:
                    self._events[placed.partition] = placed.position
        if self.hub is not None:
            assert self.log is not None and self.order is not None, "open"
            positions = self.order.positions
            self.hub.token = Token(self.log.identity, tuple(positions))
            self._updates.progress.moved(positions)
        if self.counted != (self.view.head_count, self.view.document_bytes):
            self._count()

    def _fold(self, placed: Placed) -> None:
        """Folds an entry and passes on what it did. One that can't be folded is treated as one that can't be read."""
        view, event = self.view, placed.event
        try:
            folded, head, before, state = view.fold(placed)
        except Exception as error:  # noqa: BLE001 (whatever is wrong with one entry, those behind it are taken)
            _LOG.exception("%s: the entry at %s can't be applied", self._namespace, placed.position)
            folded = head = state = None
            before = view.head(event.key) if event is not None else None
            placed, event = placed._replace(event=None, problem=f"it can't be applied ({type(error).__name__})"), None
        if placed.problem:
            self.unreadable += 1
            self._common.activity.unreadable += 1
            if placed.problem not in self._logged and len(self._logged) < _MOST_LOGGED:
                self._logged.add(placed.problem)
                skipped = f"{placed.position}: {placed.problem} (others like it are only counted)"
                _LOG.warning("%s: skipped an unreadable entry at %s", self._namespace, skipped)
        if self._recorder is not None:
            self._folded.append((placed, before, folded, head or before))
        if head is not None and self.hub is not None:
            self.hub.publish(head, before)
        if self._serves and event is not None and folded is not None and state is not None:
            old = before.document if before is not None else None
            self._common.activity.folded(placed, folded, old, state.document)
            self._updates.folded(placed, event, folded, old, state)

    def _count(self) -> None:
        """Counts what the view keeps. If there is no room for a namespace that is loaded for the first time, its load ends."""
        if self.counted is None:
            return
        common, (keys, size) = self._common, self.counted
        self.counted = self.view.head_count, self.view.document_bytes
        common.count(self.counted[0] - keys, self.counted[1] - size)
        if not common.relieved(self._namespace) and self._is_first and not self._caught_up:
            self.lost(common.no_room(self._namespace))

    def _note(self) -> None:
        folded, self._folded = self._folded, []
        if folded and self._recorder is not None:
            self._record(self._recorder.noted, folded)

    def _record(self, note: Callable[..., None], *about: Any) -> None:
        """Calls the recorder. One that fails records nothing more of this opening; the next opening finds out what is missing."""
        try:
            note(*about)
        except Exception:  # noqa: BLE001 (what is served does not depend on what is recorded)
            _LOG.exception("%s: recording failed; it continues when the log is opened again", self._namespace)
            self._recorder = None


def _complete_after(log: NamespaceLog) -> list[Position | None]:
    """Returns the position of each partition behind which nothing was compacted away; None: it is not known."""
    return [log.complete_after(partition) for partition in range(log.partitions)]


def next_hub(hub: WatchHub | None, older: Follower | None, follower: Follower, limits: Limits) -> WatchHub:
    """Returns the hub of a view that has been read: the former one if its view was continued, or else a new one.

    The former one's watchers then resume from where they stand, if they can (``WatchHub.replace``).
    """
    log = follower.log
    assert log is not None and follower.order is not None, "open"
    same_log = hub is not None and hub.token.log == log.identity and len(hub.token.positions) <= log.partitions
    if hub is not None and same_log:
        follower.order.passed(hub.token.widened(log.partitions).positions)
    token = Token(log.identity, tuple(follower.positions))
    if hub is not None and follower.continues:
        hub.token = token
        return hub
    behind = known_behind(log.complete_after, follower.view, token.positions)
    if hub is not None:
        hub.replace(Lagged if same_log else Replaced, trusted=older is not None and older.trusted)
    return WatchHub(follower.view, token, ring=limits.max_every_backlog_changes, horizon=behind)


def known_behind(complete_after: Callable[[int], Position | None], view: View, positions: Sequence[Position]) -> tuple[Position, ...]:
    """Returns the positions behind which a view knows of every key that has changed: nothing is compacted away or forgotten there.

    ``complete_after``: that of the log from which the view was read.
    """
    known: list[Position] = []
    for partition, end in enumerate(positions):
        complete = complete_after(partition)
        known.append(max(end if complete is None else min(complete, end), view.forgotten.get(partition, "")))
    return tuple(known)
