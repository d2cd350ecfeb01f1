"""One opening of a namespace's change log: brings what the log reports into order and folds it into a view.

A namespace that loses its log opens it anew with a new follower. A follower that has been replaced reports to no owner, so a superseded
opening can neither end its successor nor serve in its place.

A log has to go on whatever comes of its reports. An entry that can't be folded is counted with those that can't be read, and the rest of
its batch is taken. If the owner fails on a report, the view is ahead of what the owner's parts know, so the log is read anew.

Every entry is folded as soon as it is read, in the order of its partition. How many come at once, and so for how long the event loop is
busy, is up to the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..checkpoints import Place, Restored
from ..core.fold.fold import FoldContext, Folded
from ..core.policies.events import Event, Placed, Position
from ..core.reading.readback import Disagreement, ReadBack
from ..core.reading.view import Head, View
from ..core.reasons import LogState, Reason
from ..logs.change_log import LogError, NamespaceLog, Start, anchor_of
from .capacity import Capacity, Share
from .listeners import Owner, Recorder, Taken

_LOG = logging.getLogger(__name__)
_MOST_LOGGED = 100
"""Different problems of entries that are logged a load; a writer of a log can make any number of them."""
_Step: TypeAlias = tuple[Placed, Head | None, Folded | None, Head | None]
"""A log entry, the head before it, what it did, and the head that it made; None: it made none."""


class Follower:
    """A ``LogSink`` that keeps a view."""

    def __init__(
        self,
        owner: Owner[Follower],
        namespace: str,
        context: FoldContext,
        older: Follower | None = None,
        recorder: Recorder | None = None,
        capacity: Capacity | None = None,
        restored: Restored | None = None,
    ) -> None:
        """Begins without a log.

        Args:
            owner: receives the reports.
            namespace: its name.
            context: what the fold needs to know.
            older: the follower of the previous opening, which has ended; its view is continued if nothing that it has not seen was
                compacted away.
            recorder: writes down what is folded; None: nothing does.
            capacity: what may be kept in memory; None: anything.
            restored: the view of a checkpoint, with which this follower begins if the log is read from there on.
        """
        self._in_use = capacity.in_use if capacity is not None else None
        self.view = View(context, in_use=self._in_use)
        """The view; empty until the log is open."""
        self.continues = False
        """Whether the view is that of the previous opening, continued."""
        self.trusted = True
        """Whether the log never contradicted what the view was built from."""
        self.log: NamespaceLog | None = None
        """The opened log; None before ``opened``."""
        self.unreadable = 0
        """How many entries could not be read."""
        self._logged: set[str] = set()
        """The problems of these entries that the server's log has, at most ``_MOST_LOGGED``."""
        self._owner: Owner[Follower] | None = owner
        self._older = older
        self._recorder = recorder
        self._folded: list[Taken] = []
        """Folded events that the recorder has not been given yet."""
        self._context = context
        self._namespace = namespace
        self.readback: ReadBack | None = None
        """Puts read and acknowledged events in order, and knows the view's positions; None: the log is not open."""
        self._early: list[tuple[Callable[[Sequence[Any]], None], Sequence[Any]]] = []
        self._caught_up = False
        self.share = Share(capacity)
        """What this view adds to the server's ``capacity``."""
        self._first = older is None
        self._restored = restored
        self.size = 0
        """Bytes of the view's documents."""
        self.unsaved = 0
        """How many events came since the last checkpoint of the view."""
        self._last: dict[int, Placed] = {}
        """The last entry of each partition."""
        self._anchors: dict[int, tuple[Position, str]] = {}
        """By partition: position and anchor of the restored checkpoint; used until an entry of the partition comes."""
        self._events: dict[int, Position] = {}
        """By partition: the position of the last event, or of the last entry that could not be read (``Place.events``)."""

    @property
    def identity(self) -> str:
        """The log's identity, as it is now: a log that did not exist at the opening may have got its lasting name since."""
        return self.log.identity if self.log is not None else ""

    @property
    def positions(self) -> Sequence[Position]:
        """Where the view stands, by partition; empty before the log is open."""
        return self.readback.positions if self.readback is not None else ()

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
            self.view = View(self._context, complete, in_use=self._in_use)
            self.readback = ReadBack(log.partitions, log.follows)
        self._report(self._count)
        self._record(lambda recorder: recorder.opened(log))
        early, self._early = self._early, []
        for take, events in early:
            take(events)
        if self._caught_up:
            self.caught_up()

    def retire(self) -> None:
        """Ends the reports to the owner. The view stays where it is, so that another opening can continue it.

        If the log is still being opened, the view of the previous opening stays with the previous follower.
        """
        if self._owner is not None:
            self._owner = self._older = None
            self._note()
            self._record(lambda recorder: recorder.closed())
            self._recorder = None

    def forget(self) -> None:
        """Stops counting the view in the server's ``capacity``."""
        self.share.give_back()

    def let_go(self) -> None:
        """Drops the view and the log, which nothing needs any more. Reference cycles with the log and others would keep them in memory."""
        self.retire()
        self.forget()
        self.view = View(self._context)
        self.log = self.readback = self._restored = None
        self._early.clear()

    # --- LogSink ------------------------------------------------------------------------------------------------

    def read(self, events: Sequence[Placed]) -> None:
        """Takes events that the log's reader delivered."""
        if self.readback is None:
            self._wait(self.read, events)
        else:
            readback = self.readback
            if self.log is not None and not (self._caught_up or self.continues or self._restored is not None):
                self.view.complete_behind(_complete_after(self.log))
            self._report(lambda owner: self._take(owner, readback.read(events)))

    def appended(self, events: Sequence[Placed]) -> None:
        """Takes events of ours that the log acknowledged."""
        if self.readback is None:
            self._wait(self.appended, events)
        else:
            readback = self.readback
            self._report(lambda owner: self._take(owner, readback.acknowledged(owner.acknowledged(events))))

    def caught_up(self) -> None:
        """Notes that everything that was in the log at its opening has been read."""
        self._caught_up = True
        if self.readback is not None:
            self._report(self._finish_loading)

    def append_failed(self, event: Event, error: LogError) -> None:
        """Reports that an event of ours was not acknowledged."""
        self._report(lambda owner: owner.append_failed(self, event, error))

    def lost(self, error: LogError) -> None:
        """Reports that the log can't be followed any more."""
        if self._owner is not None:
            self._owner.lost(self, error)

    def led(self) -> None:
        """Reports that the writer of the log may have changed."""
        self._report(lambda owner: owner.led(self))

    def settled(self) -> None:
        """Reports ``loaded`` again: it is time to check again whether the view may answer."""
        self._report(lambda owner: owner.loaded(self))

    def _wait(self, take: Callable[[Sequence[Any]], None], events: Sequence[Any]) -> None:
        """Keeps events that come while the log is being opened; ``opened`` takes them."""
        if self._owner is not None:
            self._early.append((take, events))

    # -------------------------------------------------------------------------------------------------------------

    def is_confirmed(self, positions: Sequence[Position]) -> bool:
        """Returns whether the log's reader has delivered every event up to these positions, by partition, that was taken by proof."""
        return self.readback is not None and self.readback.is_confirmed(positions)

    def passed(self, positions: Sequence[Position]) -> None:
        """Notes that everything up to these positions of the log, by partition, is known or superseded (``ReadBack.passed``)."""
        assert self.readback is not None, "open"
        self.readback.passed(positions)

    def may_be_continued(self, identity: str, complete: Sequence[Position | None]) -> bool:
        """Returns whether a new opening of the log may continue this view: nothing that the view has not seen was compacted away."""
        if not (self.trusted and identity == self.identity and len(complete) == len(self.positions)):
            return False
        return all(end is not None and end <= here for end, here in zip(complete, self.positions, strict=True))

    def _continue(self, older: Follower, log: NamespaceLog) -> None:
        """Continues the view of the previous opening."""
        self.continues, self.view = True, older.view
        self.readback = ReadBack(log.partitions, log.follows, older.positions)
        self.size = older.size
        self.share.take_over(older.share)
        self.unsaved, self._last, self._anchors, self._events = older.unsaved, older._last, older._anchors, older._events

    def _begin_with(self, restored: Restored, log: NamespaceLog) -> None:
        """Begins with the view of a checkpoint."""
        self.view = restored.view
        if self._in_use is not None:
            self.view.share(self._in_use)
        start, events = restored.place
        self.readback = ReadBack(log.partitions, log.follows, start.positions)
        self.size, self.unreadable = restored.size, restored.unreadable
        self._anchors = dict(enumerate(zip(start.positions, start.anchors, strict=True)))
        self._events = dict(enumerate(events))

    def _finish_loading(self, owner: Owner[Follower]) -> None:
        log = self.log
        assert log is not None, "open"
        self.passed([log.complete_after(partition) or "" for partition in range(log.partitions)])
        self.view.loaded()
        self._record(lambda recorder: recorder.caught_up())
        owner.loaded(self)

    def _take(self, owner: Owner[Follower], events: Sequence[Placed]) -> None:
        if not events:
            return
        fold, taken = self._fold, owner.taken
        try:
            for entry in events:
                placed, before, folded, change = fold(entry)
                if self._recorder is not None:
                    self._folded.append((placed, before, folded, change if change is not None else before))
                taken(self, placed, folded, change, before)
        finally:
            self._note()
            self.unsaved += len(events)
            for entry in events:
                self._last[entry.partition] = entry
                if entry.event is not None or entry.problem:
                    self._events[entry.partition] = entry.position
        owner.moved(self)
        self._count(owner)

    def _count(self, owner: Owner[Follower]) -> None:
        """Counts what the view keeps. If there is no room for a namespace that is loaded for the first time, reports ``refused``."""
        if not self.share.count(len(self.view), self.size):
            return
        if self._caught_up:
            owner.grown(self)
        elif self._first and (refusal := self.share.refusal(self._namespace)) is not None:
            owner.refused(self, refusal)

    def _fold(self, placed: Placed) -> _Step:
        """Folds an entry and counts it. An entry that can't be folded is treated as one that can't be read."""
        before = self.view.head(placed.event.key) if placed.event is not None else None
        folded = change = None
        try:
            folded, change = self.view.take(placed)
        except Exception as error:  # noqa: BLE001 (whatever is wrong with one entry, those behind it are taken)
            _LOG.exception("%s: the entry at %s can't be applied", self._namespace, placed.position)
            placed = placed._replace(event=None, problem=f"it can't be applied ({type(error).__name__})")
        if placed.problem:
            self.unreadable += 1
            if placed.problem not in self._logged and len(self._logged) < _MOST_LOGGED:
                self._logged.add(placed.problem)
                skipped = f"{placed.position}: {placed.problem} (others like it are only counted)"
                _LOG.warning("%s: skipped an unreadable entry at %s", self._namespace, skipped)
        if change is not None:
            self.size += _size(change) - _size(before)
        return placed, before, folded, change

    def _report(self, report: Callable[[Owner[Follower]], None]) -> None:
        """Reports to the owner, if there is one. If the owner fails, the log counts as lost, and this view is not continued."""
        owner = self._owner
        if owner is None:
            return
        try:
            report(owner)
        except Disagreement as error:
            _LOG.error("%s: the reader contradicts a proof (%s); the log is read again", self._namespace, error)
            self._give_up(f"was found to be inconsistent: {error}")
        except Exception as error:  # noqa: BLE001 (what was not told of is told when the log is read anew)
            _LOG.exception("%s: what the log reported could not be processed; it is read again", self._namespace)
            self._give_up(f"reported what could not be processed ({type(error).__name__})")

    def _give_up(self, what: str) -> None:
        self.trusted = False
        self.lost(LogError(Reason.LOG_UNAVAILABLE, f"The change log of {self._namespace} {what}."))

    def _note(self) -> None:
        """Passes on to the recorder what was folded."""
        folded, self._folded = self._folded, []
        if folded:
            self._record(lambda recorder: recorder.noted(folded))

    def _record(self, note: Callable[[Recorder], None]) -> None:
        """Calls the recorder. One that fails records nothing more of this opening; the next opening finds out what is missing."""
        if self._recorder is not None:
            try:
                note(self._recorder)
            except Exception:  # noqa: BLE001 (what is served does not depend on what is recorded)
                _LOG.exception("%s: recording failed; it continues when the log is opened again", self._namespace)
                self._recorder = None


def _complete_after(log: NamespaceLog) -> list[Position | None]:
    """Returns the position of each partition behind which nothing was compacted away; None: it is not known."""
    return [log.complete_after(partition) for partition in range(log.partitions)]


def _size(head: Head | None) -> int:
    return 0 if head is None else head.size
