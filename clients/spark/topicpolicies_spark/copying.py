"""Copies a sidecar's history: the events behind one place, up to another place or to the end (a watch in the mode ENTRIES).

A place is a watch token: a log, and a position in each of its partitions. The events of different partitions may come in any order; but
the set of events between two places is the same whenever they are read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import NamedTuple, Self

from grpc import StatusCode

from topicpolicies import (
    Bookmark,
    Client,
    Entry,
    Gap,
    HistoryEntry,
    HistoryGap,
    HistoryGapReason,
    NamespaceState,
    OutOfRange,
    Reset,
    ResumeToken,
    Status,
    Synced,
    Unavailable,
    WatchMode,
    WatchToken,
)

PATIENCE_SECONDS = 60.0
"""How many seconds a sidecar may be out of reach, or unable to read the namespace's log, before the copy fails."""


class FoundGap(NamedTuple):
    """A gap that the sidecar has sent."""

    gap: HistoryGap
    log: str
    """If the log was replaced, the identity of the one that follows; else empty."""


class Copy(Iterator[HistoryEntry]):
    """An iterator over the events of one namespace behind a place, each once; a context manager that ends the stream. For one thread."""

    def __init__(self, client: Client, namespace: str, behind: WatchToken | None, until: WatchToken | None = None) -> None:
        """Opens the watch.

        Args:
            client: a client of the sidecar.
            namespace: ``tenant/namespace``.
            behind: the place behind which the copy begins; None: the beginning of the history.
            until: the place where the copy ends; None: the end that the history has at present.
        """
        self.place = behind
        """The place behind the events that were returned so far; None: before the first."""
        self.gaps: list[FoundGap] = []
        """The gaps that the sidecar has sent so far."""
        self.reached = behind is not None and behind == until
        """Whether the copy has reached ``until``."""
        self.synced = False
        """Whether the copy has reached the end of the history."""
        self._until = until
        self._wait_limit: threading.Timer | None = None
        """Closes the watch when patience is over; None: the sidecar can read the namespace's log."""
        self._problem = ""
        """Why the sidecar could not read the namespace's log, by its last report."""
        self._watch = client.watch(
            namespaces=[namespace],
            mode=WatchMode.ENTRIES,
            token=ResumeToken({namespace: behind}) if behind is not None else None,
            end_when_synced=True,
            patience=PATIENCE_SECONDS,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._limit_wait(None)
        self._watch.close()

    @property
    def log(self) -> str:
        """The identity of the log of the last event."""
        return self.place.log if self.place is not None else ""

    def __next__(self) -> HistoryEntry:
        """Returns the next event.

        Raises:
            OutOfRange: the sidecar's history does not know the place.
            TopicPoliciesError: the sidecar can't be reached, can't read the log, or keeps no history.
        """
        while not (self.reached or self.synced):
            event = next(self._watch, None)
            match event:
                case None:
                    raise Unavailable(self._problem or "The sidecar ended the stream.", code=StatusCode.UNAVAILABLE)
                case Entry(entry=entry):
                    if self._is_before_end(entry):
                        self._advance_to(self.place.folded(entry.partition, entry.position) if self.place is not None else None)
                        return entry
                case Gap(gap=gap):  # a bookmark of the next log stands before the gap
                    self.gaps.append(FoundGap(gap, self.log if gap.reason is HistoryGapReason.LOG_REPLACED else ""))
                case Synced(token=token):
                    self._advance_to(token)
                    self.synced = True
                case Bookmark(token=token):
                    self._advance_to(token)
                case Status():
                    self._limit_wait(event)
                case Reset():
                    raise OutOfRange(f"The history was replaced: {event.message}", code=StatusCode.OUT_OF_RANGE, reason=event.reason)
        raise StopIteration

    def _is_before_end(self, entry: HistoryEntry) -> bool:
        """Returns whether an event is not behind ``until``."""
        until = self._until
        return until is None or self.place is None or self.place.log != until.log or entry.position <= until.at(entry.partition)

    def _advance_to(self, place: WatchToken | None) -> None:
        """Takes note that all events up to a place were returned, except those behind ``until``: moves on at most to there."""
        until, before = self._until, self.place
        if until is not None and place is not None:
            if place.log == until.log:
                place = replace(place, positions=tuple(min(each, until.at(number)) for number, each in enumerate(place.positions)))
                self.reached = all(place.at(number) >= position for number, position in enumerate(until.positions))
            elif before is not None and before.log == until.log:  # events of the next log follow: the log of ``until`` is complete
                place, self.reached = until, True
        self.place = place

    def _limit_wait(self, status: Status | None) -> None:
        """Starts to wait for a namespace whose log the sidecar can't read, for a bounded time. None or READY: ends the wait."""
        if self._wait_limit is not None:
            self._wait_limit.cancel()
            self._wait_limit = None
        if status is not None and status.state is not NamespaceState.READY:
            self._problem = status.message
            self._wait_limit = threading.Timer(PATIENCE_SECONDS, self._watch.close)
            self._wait_limit.daemon = True
            self._wait_limit.start()


def current_end(client: Client, namespace: str) -> WatchToken | None:
    """Returns the place where the log of a namespace ends now; None: nothing was written to it.

    Raises:
        TopicPoliciesError: the sidecar can't be reached, or can't read the log.
    """
    listing = client.list(namespace, page_size=1)
    next(listing, None)
    token = listing.token.namespaces.get(namespace)
    if token is not None and token.log:
        return token
    with Copy(client, namespace, None) as copy:  # topic policies are disabled, so a listing has no place: its history has one
        for _ in copy:
            pass
        return copy.place if copy.place is not None and copy.place.log else None
