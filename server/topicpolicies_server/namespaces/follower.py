"""One opening of a namespace's change log: what it reports is brought into order and folded into a view.

A namespace that loses its log opens it anew with a new follower. A follower that has been replaced reports to nobody: a superseded load
can neither tear down nor serve for its successor.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from ..core.errors import Kind
from ..core.fold.fold import FoldContext, Folded
from ..core.policies.events import Event, Placed, Position
from ..core.reading.readback import Disagreement, ReadBack
from ..core.reading.view import Change, View
from ..core.reasons import Reason
from ..logs.change_log import LogError, NamespaceLog

_LOG = logging.getLogger(__name__)


class Owner(Protocol):
    """Whoever follows a log through a follower."""

    def taken(self, follower: Follower, placed: Placed, folded: Folded | None, change: Change | None, before: Change | None) -> None:
        """An event was folded into the follower's view, and changed the head ``before`` to ``change`` (None: not)."""

    def moved(self, follower: Follower) -> None:
        """The view has come further; called after the ``taken`` of one report."""

    def loaded(self, follower: Follower) -> None:
        """What was in the log when it was opened has been folded."""

    def append_failed(self, follower: Follower, event: Event, error: LogError) -> None:
        """An event of ours was not acknowledged."""

    def lost(self, follower: Follower, error: LogError) -> None:
        """The log can't be followed any more."""

    def led(self, follower: Follower) -> None:
        """Who may append may have changed."""


class Recorder(Protocol):
    """Whoever writes down what was folded (``history.Scribe``). The methods must return soon and must not raise."""

    def opened(self, log: NamespaceLog) -> None:
        """The log is open; nothing of it was folded yet."""

    def noted(self, placed: Placed, before: Change | None, folded: Folded | None, after: Change | None) -> None:
        """An event was folded: the head before it, what it did, and the head after it; None where the log knew no event of the key."""

    def caught_up(self) -> None:
        """What was in the log when it was opened has been folded."""

    def closed(self) -> None:
        """The log is not followed any more."""


Record: TypeAlias = Callable[[str], Awaitable[Recorder | None]]
"""Gives a recorder for one opening of the named namespace's log; None if it can't be recorded now."""


class Follower:
    """A ``LogSink`` that keeps a view."""

    def __init__(
        self, owner: Owner, namespace: str, context: FoldContext, older: Follower | None = None, recorder: Recorder | None = None
    ) -> None:
        """Begins without a log.

        Args:
            owner: who is told what happens.
            namespace: its name.
            context: what the fold needs to know.
            older: the opening before, which has ended; its view is continued if nothing that it has not seen was compacted away.
            recorder: writes down what is folded.
        """
        self.view = View(context)
        """Empty until the log is open."""
        self.continues = False
        """Whether the view is that of the opening before."""
        self.trusted = True
        """Whether the log never contradicted what the view was built from."""
        self.log: NamespaceLog | None = None
        """Set by ``opened``."""
        self.unreadable = 0
        """Entries that could not be read."""
        self._owner: Owner | None = owner
        self._older = older
        self._recorder = recorder
        self._context = context
        self._namespace = namespace
        self._readback: ReadBack | None = None
        self._early: list[tuple[str, Sequence[Placed]]] = []
        self._caught_up = False

    @property
    def identity(self) -> str:
        """Of the log, as it is now: one that did not exist at the opening may have got its lasting name since."""
        return self.log.identity if self.log is not None else ""

    @property
    def positions(self) -> Sequence[Position]:
        """Where the view stands, by partition."""
        return self._readback.positions if self._readback is not None else ()

    def opened(self, log: NamespaceLog) -> None:
        """The log is open. What it reported while it was being opened is taken now."""
        self.log = log
        complete = [log.complete_after(partition) for partition in range(log.partitions)]
        older, self._older = self._older, None
        self._context = self._context._replace(in_place=log.in_place)
        if older is not None and older.may_be_continued(self.identity, complete) and older.view.context.in_place == log.in_place:
            self.continues, self.view = True, older.view
            self._readback = ReadBack(log.partitions, log.follows, older.positions)
        else:
            self.view = View(self._context, complete)
            self._readback = ReadBack(log.partitions, log.follows)
        if self._recorder is not None:
            self._recorder.opened(log)
        early, self._early = self._early, []
        for what, events in early:
            if what == "read":
                self.read(events)
            else:
                self.appended(events)
        if self._caught_up:
            self._finish_loading()

    def retire(self) -> None:
        """Its owner does not listen any more: it stays where it is, so that another opening can go on from there."""
        self._owner = None
        if self._recorder is not None:
            self._recorder.closed()

    # --- LogSink ------------------------------------------------------------------------------------------------

    def read(self, events: Sequence[Placed]) -> None:
        """Events that the log's reader delivered."""
        if self._owner is None:
            return
        if self._readback is None:
            self._early.append(("read", events))
            return
        try:
            taken = self._readback.read(events)
        except Disagreement as error:
            self.trusted = False
            _LOG.error("%s: the reader contradicts a proof (%s); the log is read anew", self._namespace, error)
            self.lost(LogError(Reason.LOG_OUT_OF_ORDER, f"The change log of {self._namespace} was found out of order: {error}."))
            return
        self._take(taken)

    def appended(self, events: Sequence[Placed]) -> None:
        """Events of ours that the log acknowledged."""
        if self._owner is None:
            return
        if self._readback is None:
            self._early.append(("appended", events))
            return
        self._take(self._readback.acknowledged(events))

    def caught_up(self) -> None:
        """Everything that was there at opening has been read."""
        if self._owner is None:
            return
        self._caught_up = True
        if self._readback is not None:
            self._finish_loading()

    def append_failed(self, event: Event, error: LogError) -> None:
        """An event of ours was not acknowledged."""
        if self._owner is not None:
            self._owner.append_failed(self, event, error)

    def lost(self, error: LogError) -> None:
        """The log can't be followed any more."""
        if self._owner is not None:
            self._owner.lost(self, error)

    def led(self) -> None:
        """Who may append may have changed."""
        if self._owner is not None:
            self._owner.led(self)

    # -------------------------------------------------------------------------------------------------------------

    def passed(self, positions: Sequence[Position]) -> None:
        """Somebody had come this far, by partition, in the same log before this opening."""
        assert self._readback is not None, "open"
        self._readback.passed(positions)

    def may_be_continued(self, identity: str, complete: Sequence[Position | None]) -> bool:
        """Whether a new opening of the log may go on with this one's view: nothing that it has not seen was compacted away."""
        if not (self.trusted and identity == self.identity and len(complete) == len(self.positions)):
            return False
        return all(end is not None and end <= here for end, here in zip(complete, self.positions, strict=True))

    def _finish_loading(self) -> None:
        log = self.log
        assert log is not None, "open"
        self.passed([log.complete_after(partition) or "" for partition in range(log.partitions)])
        self.view.loaded()
        if self._recorder is not None:
            self._recorder.caught_up()
        if self._owner is not None:
            self._owner.loaded(self)

    def _take(self, events: Sequence[Placed]) -> None:
        owner = self._owner
        if owner is None or not events:
            return
        take, head, recorder = self.view.take, self.view.head, self._recorder
        for placed in events:
            if placed.problem:
                self.unreadable += 1
                _LOG.warning("%s: skipped an unreadable entry at %s: %s", self._namespace, placed.position, placed.problem)
            before = head(placed.event.key) if placed.event is not None else None
            folded, change = take(placed)
            if recorder is not None:
                recorder.noted(placed, before, folded, change if change is not None else before)
            owner.taken(self, placed, folded, change, before)
        owner.moved(self)


def unavailable(namespace: str, reason: Reason, sentence: str) -> LogError:
    """An UNAVAILABLE about a namespace."""
    return LogError(reason, f"{namespace}: {sentence}", kind=Kind.UNAVAILABLE)
