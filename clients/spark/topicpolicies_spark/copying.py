"""A sidecar's history as a stream of events: what follows a place, up to another one or to the end (a watch in the mode ENTRIES).

A place is a watch token: a log, and a position in each of its partitions. Partitions may come in any order, yet what lies between two
places is the same whenever it is read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Self

from grpc import StatusCode

from topicpolicies import (
    Bookmark,
    Client,
    Entry,
    Gap,
    HistoryEntry,
    HistoryGap,
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
"""How long a sidecar may be out of reach, or unable to read the namespace's log."""


class Copy(Iterator[HistoryEntry]):
    """The events of one namespace behind a place, each once; a context that ends the stream. It is for one thread."""

    def __init__(self, client: Client, namespace: str, behind: WatchToken | None, until: WatchToken | None = None) -> None:
        """Begins.

        Args:
            client: to the sidecar.
            namespace: ``tenant/namespace``.
            behind: the place; None: the beginning.
            until: where it ends; None: when all was told that there is.
        """
        self.place = behind
        """Behind what was given so far."""
        self.gaps: list[HistoryGap] = []
        """Those that were told so far."""
        self.reached = behind is not None and behind == until
        """Whether ``until`` was reached."""
        self.synced = False
        """Whether all was told that there is."""
        self._until = until
        self._patience: threading.Timer | None = None
        self._problem = ""
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
        self._be_patient(None)
        self._watch.close()

    def __next__(self) -> HistoryEntry:
        """The next event.

        Raises:
            OutOfRange: the history knows nothing of the place.
            TopicPoliciesError: the sidecar can't be reached, can't read the log, or keeps no history.
        """
        while not (self.reached or self.synced):
            event = next(self._watch, None)
            match event:
                case None:
                    raise Unavailable(self._problem or "The sidecar ended the stream.", code=StatusCode.UNAVAILABLE)
                case Entry(entry=entry):
                    if self._is_asked_for(entry):
                        self._stand_at(self.place.folded(entry.partition, entry.position) if self.place is not None else None)
                        return entry
                case Gap(gap=gap):
                    self.gaps.append(gap)
                case Synced(token=token):
                    self._stand_at(token)
                    self.synced = True
                case Bookmark(token=token):
                    self._stand_at(token)
                case Status():
                    self._be_patient(event)
                case Reset():
                    raise OutOfRange(f"The history was replaced: {event.message}", code=StatusCode.OUT_OF_RANGE, reason=event.reason)
        raise StopIteration

    def _is_asked_for(self, entry: HistoryEntry) -> bool:
        """Whether an event is not behind the end."""
        until = self._until
        return until is None or self.place is None or self.place.log != until.log or entry.position <= until.at(entry.partition)

    def _stand_at(self, place: WatchToken | None) -> None:
        """Everything up to a place was given, as far as that is not behind the end."""
        until, before = self._until, self.place
        if until is not None and place is not None:
            if place.log == until.log:
                place = replace(place, positions=tuple(min(each, until.at(number)) for number, each in enumerate(place.positions)))
                self.reached = all(place.at(number) >= position for number, position in enumerate(until.positions))
            elif before is not None and before.log == until.log:  # the log of the end is over
                place, self.reached = until, True
        self.place = place

    def _be_patient(self, status: Status | None) -> None:
        """For some time, with a namespace whose log can't be read; None or READY: it can."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if status is not None and status.state is not NamespaceState.READY:
            self._problem = status.message
            self._patience = threading.Timer(PATIENCE_SECONDS, self._watch.close)
            self._patience.daemon = True
            self._patience.start()


def present(client: Client, namespace: str) -> WatchToken | None:
    """Where the log of a namespace ends now; None if nobody has written to it.

    Raises:
        TopicPoliciesError: the sidecar does not know.
    """
    listing = client.list(namespace, page_size=1)
    next(listing, None)
    token = listing.token.namespaces.get(namespace)
    if token is not None and token.log:
        return token
    with Copy(client, namespace, None) as copy:  # its topic policies are disabled: its history is all that there is
        for _ in copy:
            pass
        return copy.place if copy.place is not None and copy.place.log else None
