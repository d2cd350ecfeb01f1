"""A watch that outlives its streams, without I/O: the request for each stream, the events in its messages, and when the next one opens.

The life of a watch::

    connect() -> request -> received(response)* -> broke(error) -> wait -> connect() -> ...

The caller takes the events with ``next``, one at a time; ``token`` is the place of the watch behind the events that were taken.

The watch keeps one *token* for each namespace: the one that the caller gave, or that of the SYNCED bookmark that ends the snapshot. From
then on it folds the position of every event into the token, so that a stream that breaks between two bookmarks is resumed where it broke.
Before SYNCED there is no token: the order of a snapshot is not that of positions. So a snapshot that breaks off begins again, and the watch
yields ``Reset`` first. The mode ENTRIES has no snapshot, and its events come in the order of the log: there the watch takes the token of
every bookmark.

No event is yielded twice. After a resumption, events at or before the token that was sent are dropped; and at any time, a document that is
not newer than the last one of its policy key since the last bookmark. (Older versions need not be remembered: no stream goes back behind a
bookmark.)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC

from google.protobuf.duration_pb2 import Duration
from grpc import StatusCode

from .arguments import instance, member, members, texts
from .documents import Scope, is_known
from .errors import TopicPoliciesError, Violation, clearer, invalid, reason_name, stream_ended
from .events import Bookmark, Changed, Entry, Gap, Interrupted, NamespaceState, Reset, Status, Synced, WatchEvent, WatchMode
from .history import HistoryEntry, HistoryGap
from .message_errors import errors_as_invalid_argument
from .names import namespace_of
from .retries import WATCH_PAUSES, RetryPolicy, is_retryable_limit
from .timeouts import seconds_of
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
"""The codes of a stream's end after which opening another stream is pointless."""
_EXPIRED = "CREDENTIALS_EXPIRED"
"""The reason of a stream that ended because its bearer token expired: the next stream may have a newer token."""
_BROKEN_SNAPSHOT = "the watch was interrupted before the snapshot was complete"
_NOT_COVERED = "the token does not cover this namespace"


@dataclass(slots=True)
class _NamespaceProgress:
    """The state of one namespace of a watch."""

    token: WatchToken | None = None
    """The place of the watch; None: in or before the snapshot, or in the mode ENTRIES before the first bookmark."""
    resumed: WatchToken | None = None
    """The token that the open stream was resumed from, until the stream has caught up."""
    delivered: bool = False
    """Whether the caller may hold documents of an earlier stream."""
    restart_reason: str = _BROKEN_SNAPSHOT
    """Why the snapshot begins again when the next stream is opened."""
    recent: dict[tuple[str, int], str] = field(default_factory=dict)
    """The versions of documents that were yielded since the last bookmark, by topic and scope."""

    def repeats(self, partition: int, position: str) -> bool:
        """Returns whether the event at this position was yielded before the stream was resumed."""
        before = self.resumed.at(partition) if self.resumed is not None else ""
        return bool(before and position) and position <= before


class WatchSession:
    """The state of one watch, over all its streams. Times are in seconds, by the caller's clock."""

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
        """``WatchOptions`` documents the arguments; ``policy``: the pauses between streams.

        Raises:
            InvalidArgument: no topic and no namespace was named, or an argument has a wrong type or value.
        """
        with errors_as_invalid_argument():
            self._request = service_pb2.WatchPoliciesRequest(
                topics=texts(topics, "topics"),
                namespaces=texts(namespaces, "namespaces"),
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
            self._progress: dict[str, _NamespaceProgress] = {name: _NamespaceProgress() for name in selected}
            if token is not None:
                instance(token, ResumeToken, "token")
                for name, progress in self._progress.items():
                    progress.delivered = True
                    progress.token = token.namespaces.get(name)
                    progress.restart_reason = _NOT_COVERED if progress.token is None else _BROKEN_SNAPSHOT
        self._from_beginning = from_beginning
        self._policy = policy or WATCH_PAUSES
        self.patience = seconds_of(patience, math.inf, "patience")
        """How many seconds the service may be silent or unreachable."""
        self._quiet_since: float | None = None
        self._clearest: TopicPoliciesError | None = None
        """The error of a stream that says most about why there is no connection."""
        self._failed = 0
        self._before: deque[WatchEvent] = deque()
        """Events of the watch itself, which come before those of the stream."""
        self._arrived: deque[service_pb2.WatchEvent] = deque()
        """Events of the stream that were not taken yet."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that are watched, and those of watched topics."""
        return tuple(self._progress)

    @property
    def token(self) -> ResumeToken:
        """The place of the watch behind all events that were taken."""
        return ResumeToken({name: progress.token for name, progress in self._progress.items() if progress.token is not None})

    def connect(self, now: float) -> service_pb2.WatchPoliciesRequest:
        """Begins a stream, and returns its request. All events of the stream before must have been taken."""
        if self._quiet_since is None:
            self._quiet_since = now
        request = service_pb2.WatchPoliciesRequest()
        request.CopyFrom(self._request)
        for name, progress in self._progress.items():
            progress.resumed = progress.token
            if progress.token is not None:
                request.resume[name].CopyFrom(progress.token.message())
                continue
            progress.recent.clear()
            if progress.delivered:
                progress.delivered = False
                self._before.append(Reset(name, "", f"The namespace {name} begins again: {progress.restart_reason}."))
            progress.restart_reason = _BROKEN_SNAPSHOT
        return request

    def received(self, response: service_pb2.WatchPoliciesResponse, now: float) -> None:
        """Takes a message of the stream."""
        self._quiet_since = now
        self._clearest = None
        self._arrived.extend(response.events)

    def next(self) -> WatchEvent | None:
        """Takes the next event; None: none is at hand."""
        if self._before:
            return self._before.popleft()
        while self._arrived:
            event = self._read(self._arrived.popleft())
            if event is not None:
                return event
        return None

    def rest(self) -> Iterator[WatchEvent]:
        """Takes all events that are at hand."""
        while (event := self.next()) is not None:
            yield event

    def ended(self, now: float, chance: float) -> float | None:
        """Decides what follows when the service has ended the stream in order. All events of the stream must have been taken.

        Returns:
            Seconds to wait before the next stream; None: the watch is complete (``end_when_synced``).

        Raises:
            TopicPoliciesError: see ``broke``.
        """
        if self._request.end_when_synced and all(progress.token is not None for progress in self._progress.values()):
            return None
        return self.broke(stream_ended(), now, chance)

    def broke(self, error: TopicPoliciesError, now: float, chance: float) -> float:
        """Decides what follows when the stream has failed. All events of the stream must have been taken.

        Args:
            error: how the stream failed.
            now: the time in seconds.
            chance: a random number, at least 0 and less than 1.

        Returns:
            Seconds to wait before the next stream.

        Raises:
            TopicPoliciesError: the watch gives up: another stream is pointless, or patience is over. It is ``error``, or a clearer one.
        """
        self._failed += 1
        self._clearest = error = clearer(self._clearest, error)
        crowded = error.code is StatusCode.RESOURCE_EXHAUSTED and not is_retryable_limit(error)
        delay = self._policy.longest_delay_seconds * (1 + chance) / 2 if crowded else self._policy.delay(self._failed, chance)
        delay += error.retry_seconds or 0.0
        quiet = now - (self._quiet_since if self._quiet_since is not None else now)
        renewable = error.reason == _EXPIRED and self._failed == 1  # not after other failures: no newer token is to be had then
        if (error.code in _FINAL and not renewable) or math.isinf(delay) or quiet + delay > self.patience:
            raise error
        self._before.append(Interrupted(error, self._failed, delay))
        return delay

    def _read(self, event: service_pb2.WatchEvent) -> WatchEvent | None:
        """Reads an event; None: it was yielded before, or is of a kind that this client does not know, from a newer service."""
        name = event.namespace
        progress = self._progress.get(name)
        if progress is None:
            return None
        content = event.WhichOneof("content")
        if content == "change":  # nearly all are
            return self._change(name, progress, event.change)
        match content:
            case "entry":
                return self._entry(name, progress, event.entry)
            case "bookmark":
                return self._bookmark(name, progress, event.bookmark)
            case "status":
                status = event.status
                return Status(name, NamespaceState(status.state), reason_name(status.reason), status.message)
            case "reset":
                progress.token = progress.resumed = None
                progress.recent.clear()
                return Reset(name, reason_name(event.reset.reason), event.reset.message)
            case "gap":
                return Gap(name, HistoryGap.of(event.gap))
        return None

    def _change(self, name: str, progress: _NamespaceProgress, change: service_pb2.PolicyChange) -> WatchEvent | None:
        document, snapshot = change.document, False
        if progress.token is None:
            snapshot = not self._from_beginning
        else:
            key, version = (document.topic, document.scope), document.version
            known = progress.recent.get(key)
            if (known is not None and version <= known) or progress.repeats(change.partition, change.position):
                return None
            progress.recent[key] = version
            progress.token = progress.token.folded(change.partition, change.position)
        if not is_known(document):
            return None
        progress.delivered = True
        return Changed.of(name, change, snapshot)

    def _entry(self, name: str, progress: _NamespaceProgress, message: service_pb2.HistoryEntry) -> WatchEvent | None:
        if progress.token is not None:
            if progress.repeats(message.partition, message.position):
                return None
            progress.token = progress.token.folded(message.partition, message.position)
        progress.delivered = True
        entry = HistoryEntry.of(message)
        return None if entry is None else Entry(name, entry)

    def _bookmark(self, name: str, progress: _NamespaceProgress, bookmark: service_pb2.Bookmark) -> WatchEvent | None:
        synced = bookmark.kind == service_pb2.BOOKMARK_KIND_SYNCED
        if progress.token is None and not synced and self._request.mode != service_pb2.WATCH_MODE_ENTRIES:
            return None  # in the middle of a snapshot there is no place to resume from
        token, confirmed = WatchToken.of(bookmark.token), bookmark.confirmed_time.ToDatetime(UTC)
        progress.token = token
        if progress.resumed is not None and progress.resumed.log != token.log:
            progress.resumed = None  # positions of another log follow
        progress.delivered = True
        progress.recent.clear()
        if not synced:
            return Bookmark(name, token, confirmed)
        progress.resumed = None
        self._failed = 0
        return Synced(name, token, confirmed)


def _duration(seconds: float) -> Duration:
    seconds_of(seconds, seconds, "bookmark_interval")
    made = Duration()
    made.FromNanoseconds(round(seconds * 1e9))
    return made
