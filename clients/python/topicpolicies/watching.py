"""A watch that outlives its streams, without I/O: what to ask for, what an answer means, what to do when the stream breaks.

The life of a watch::

    connect() -> request -> received(response)* -> broke(error) -> wait -> connect() -> ...

What it tells is taken with ``next``, one event at a time: ``token`` is where the watch is after the events that were taken.

Per namespace it keeps one *token*: the one that was handed in, or that of the SYNCED bookmark that ends the snapshot; from then on the
position of every event is folded into it, so that a stream that breaks between two bookmarks is resumed where it broke. Before SYNCED there
is no token: a snapshot comes in no order that a position could stand for, and a broken one is begun again, which ``Reset`` says. The mode
ENTRIES has no snapshot, and its events come in the log's order: there the token of every bookmark is taken.

Nothing is told twice: after a resume, what is at or before the token that was sent, and, always, what is no newer than what
was told of the same policy key since the last bookmark. (Older versions need not be remembered: no stream goes back behind a bookmark.)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC

from google.protobuf.duration_pb2 import Duration
from grpc import StatusCode

from .arguments import member, members, several
from .building import building
from .documents import Scope, is_known
from .errors import TopicPoliciesError, Violation, invalid, reason_name, stream_ended
from .events import Bookmark, Changed, Entry, Gap, Interrupted, NamespaceState, Reset, Status, Synced, WatchEvent, WatchMode
from .history import HistoryEntry, HistoryGap
from .names import namespace_of
from .patience import seconds_of
from .retries import WATCH_PAUSES, RetryPolicy, passing_limit
from .tokens import ResumeToken, WatchToken
from .v1 import service_pb2

_FINAL = frozenset(
    {
        StatusCode.INVALID_ARGUMENT,
        StatusCode.UNAUTHENTICATED,
        StatusCode.PERMISSION_DENIED,
        StatusCode.UNIMPLEMENTED,
        StatusCode.FAILED_PRECONDITION,
    }
)
"""How streams end that it makes no sense to open again."""
_EXPIRED = "CREDENTIALS_EXPIRED"
"""The reason of a stream that ended because its token did: the next one may have a newer token."""
_BROKEN_SNAPSHOT = "the watch was interrupted before the snapshot was complete"
_NOT_COVERED = "the token does not cover this namespace"


@dataclass(slots=True)
class _Place:
    """One namespace of a watch."""

    token: WatchToken | None = None
    """Where the watch is; None: in or before the snapshot, in the mode ENTRIES before the first bookmark."""
    resumed: WatchToken | None = None
    """The token that this stream was resumed from, until it has caught up."""
    told: bool = False
    """Whether the consumer may hold documents of an earlier stream."""
    restart: str = _BROKEN_SNAPSHOT
    """Why the next snapshot comes again."""
    recent: dict[tuple[str, int], str] = field(default_factory=dict)
    """The versions that were told since the last bookmark, by topic and scope."""

    def repeats(self, partition: int, position: str) -> bool:
        """Whether what stands there was told before this stream was resumed."""
        before = self.resumed.at(partition) if self.resumed is not None else ""
        return bool(before and position) and position <= before


class WatchSession:
    """The state of one watch."""

    def __init__(  # noqa: PLR0913 - options, by keyword
        self,
        *,
        topics: Iterable[str] = (),
        namespaces: Iterable[str] = (),
        scopes: Iterable[Scope] = (),
        mode: WatchMode = WatchMode.LATEST,
        token: ResumeToken | None = None,
        from_beginning: bool = False,
        end_when_synced: bool = False,
        include_previous: bool = False,
        bookmark_interval: float | None = None,
        patience: float | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        """``WatchOptions`` says what the arguments are; ``policy``: the pauses between streams.

        Raises:
            InvalidArgument: nothing was selected, or it can't be sent.
        """
        with building():
            self._request = service_pb2.WatchPoliciesRequest(
                topics=several(topics, "topics"),
                namespaces=several(namespaces, "namespaces"),
                scopes=[scope.number for scope in members(scopes, Scope, "scopes")],
                mode=member(mode, WatchMode, "mode").number,
                from_beginning=from_beginning,
                end_when_synced=end_when_synced,
                include_previous=include_previous,
            )
            if bookmark_interval is not None:
                self._request.bookmark_interval.CopyFrom(_duration(bookmark_interval))
            selected = [*map(namespace_of, self._request.topics), *self._request.namespaces]
            if not selected:
                raise invalid("NOTHING_SELECTED", Violation("topics", "NOTHING_SELECTED", "Name at least one topic or namespace to watch."))
            self._places: dict[str, _Place] = {name: _Place() for name in selected}
            if token is not None:
                for name, place in self._places.items():
                    place.told = True
                    place.token = token.namespaces.get(name)
                    place.restart = _NOT_COVERED if place.token is None else _BROKEN_SNAPSHOT
        self._from_beginning = from_beginning
        self._policy = policy or WATCH_PAUSES
        self._patience = seconds_of(patience, math.inf, "patience")
        self._quiet_since: float | None = None
        self._failed = 0
        self._before: deque[WatchEvent] = deque()
        """What the watch itself has to tell, before what has come."""
        self._arrived: deque[service_pb2.WatchEvent] = deque()

    @property
    def namespaces(self) -> tuple[str, ...]:
        """What is watched, or of what topics are."""
        return tuple(self._places)

    @property
    def token(self) -> ResumeToken:
        """Where the watch is, after everything that was taken."""
        return ResumeToken({name: place.token for name, place in self._places.items() if place.token is not None})

    def connect(self, now: float) -> service_pb2.WatchPoliciesRequest:
        """A stream is about to be opened, and all that came was taken: what to send."""
        if self._quiet_since is None:
            self._quiet_since = now
        request = service_pb2.WatchPoliciesRequest()
        request.CopyFrom(self._request)
        for name, place in self._places.items():
            place.resumed = place.token
            if place.token is not None:
                request.resume[name].CopyFrom(place.token.message())
                continue
            place.recent.clear()
            if place.told:
                place.told = False
                self._before.append(Reset(name, "", f"The namespace {name} begins again: {place.restart}."))
            place.restart = _BROKEN_SNAPSHOT
        return request

    def received(self, response: service_pb2.WatchPoliciesResponse, now: float) -> None:
        """A message has come."""
        self._quiet_since = now
        self._arrived.extend(response.events)

    def next(self) -> WatchEvent | None:
        """Takes the next event; None: there is nothing to tell for now."""
        if self._before:
            return self._before.popleft()
        while self._arrived:
            event = self._read(self._arrived.popleft())
            if event is not None:
                return event
        return None

    def rest(self) -> Iterator[WatchEvent]:
        """Takes all that there is to tell for now."""
        while (event := self.next()) is not None:
            yield event

    def ended(self, now: float, chance: float) -> float | None:
        """The stream has ended in order, and all that came was taken.

        Returns:
            Seconds to wait before the next one; None: all was told that was asked for.

        Raises:
            TopicPoliciesError: see ``broke``.
        """
        if self._request.end_when_synced and all(place.token is not None for place in self._places.values()):
            return None
        return self.broke(stream_ended(), now, chance)

    def broke(self, error: TopicPoliciesError, now: float, chance: float) -> float:
        """The stream has failed, and all that came was taken.

        Args:
            error: why.
            now: the time.
            chance: at least 0, less than 1.

        Returns:
            Seconds to wait before the next one.

        Raises:
            TopicPoliciesError: it makes no sense to try again, or patience is at its end.
        """
        self._failed += 1
        crowded = error.code is StatusCode.RESOURCE_EXHAUSTED and not passing_limit(error)
        delay = self._policy.longest_delay_seconds * (1 + chance) / 2 if crowded else self._policy.delay(self._failed, chance)
        delay += error.retry_seconds or 0.0
        quiet = now - (self._quiet_since if self._quiet_since is not None else now)
        renewable = error.reason == _EXPIRED and self._failed == 1  # of streams that broke one after the other
        if (error.code in _FINAL and not renewable) or math.isinf(delay) or quiet + delay > self._patience:
            raise error
        self._before.append(Interrupted(error, self._failed, delay))
        return delay

    def _read(self, event: service_pb2.WatchEvent) -> WatchEvent | None:
        """What an event tells; None if it was told before, or is of a kind that this client does not know, a newer service's."""
        name = event.namespace
        place = self._places.get(name)
        if place is None:
            return None
        content = event.WhichOneof("content")
        if content == "change":  # nearly all are
            return self._change(name, place, event.change)
        match content:
            case "entry":
                return self._entry(name, place, event.entry)
            case "bookmark":
                return self._bookmark(name, place, event.bookmark)
            case "status":
                status = event.status
                return Status(name, NamespaceState(status.state), reason_name(status.reason), status.message)
            case "reset":
                place.token = place.resumed = None
                place.recent.clear()
                return Reset(name, reason_name(event.reset.reason), event.reset.message)
            case "gap":
                return Gap(name, HistoryGap.of(event.gap))
        return None

    def _change(self, name: str, place: _Place, change: service_pb2.PolicyChange) -> WatchEvent | None:
        document, snapshot = change.document, False
        if place.token is None:
            snapshot = not self._from_beginning
        else:
            key, version = (document.topic, document.scope), document.version
            known = place.recent.get(key)
            if (known is not None and version <= known) or place.repeats(change.partition, change.position):
                return None
            place.recent[key] = version
            place.token = place.token.folded(change.partition, change.position)
        if not is_known(document):
            return None
        place.told = True
        return Changed.of(name, change, snapshot)

    def _entry(self, name: str, place: _Place, message: service_pb2.HistoryEntry) -> WatchEvent | None:
        if place.token is not None:
            if place.repeats(message.partition, message.position):
                return None
            place.token = place.token.folded(message.partition, message.position)
        place.told = True
        entry = HistoryEntry.of(message)
        return None if entry is None else Entry(name, entry)

    def _bookmark(self, name: str, place: _Place, bookmark: service_pb2.Bookmark) -> WatchEvent | None:
        synced = bookmark.kind == service_pb2.BOOKMARK_KIND_SYNCED
        if place.token is None and not synced and self._request.mode != service_pb2.WATCH_MODE_ENTRIES:
            return None  # in the middle of a snapshot there is no place to resume from
        token, confirmed = WatchToken.of(bookmark.token), bookmark.confirmed_time.ToDatetime(UTC)
        place.token = token
        if place.resumed is not None and place.resumed.log != token.log:
            place.resumed = None  # positions of another log follow
        place.told = True
        place.recent.clear()
        if not synced:
            return Bookmark(name, token, confirmed)
        place.resumed = None
        self._failed = 0
        return Synced(name, token, confirmed)


def _duration(seconds: float) -> Duration:
    made = Duration()
    made.FromNanoseconds(round(seconds * 1e9))
    return made
