"""A watch that outlives its streams, without I/O: what to ask for, what an answer means, what to do when the stream breaks.

The life of a watch::

    connect() -> request -> received(response)* -> broke(error) -> wait -> connect() -> ...

Per namespace it keeps one *token*: where the watch is. The token begins as the one that was handed in, or as that of the SYNCED bookmark
that ends the snapshot; from then on the position of every change is folded into it, so that a stream that breaks between two
bookmarks is resumed where it broke. Before SYNCED there is no token: a snapshot comes in no order that a position could stand for, and
a broken one is begun again.

Nothing is told twice: after a resume, what is at or before the token that was sent, and, always, what is no newer than what
was told of the same policy key since the last bookmark. (Older versions need not be remembered: no stream goes back behind a bookmark.)

When the service says OUT_OF_RANGE, the tokens are forgotten and every namespace starts over with ``Restarted`` and a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from google.protobuf.duration_pb2 import Duration
from grpc import StatusCode

from .errors import TopicPoliciesError, Violation, invalid
from .events import Bookmark, Changed, Deleted, Interrupted, NamespaceLoading, NamespaceUnavailable, Origin, Restarted, Synced, WatchEvent
from .results import Scope, WatchMode
from .retries import RetryPolicy
from .tokens import ResumeToken, WatchToken
from .v1 import service_pb2

_RESUMABLE = frozenset(
    {
        StatusCode.UNAVAILABLE,
        StatusCode.CANCELLED,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.RESOURCE_EXHAUSTED,
        StatusCode.INTERNAL,
        StatusCode.UNKNOWN,
    }
)
"""How streams break. Whoever cancels a watch himself does not ask."""
_BROKEN_SNAPSHOT = "the watch was interrupted before the snapshot was complete"


@dataclass(slots=True)
class _Place:
    """One namespace of a watch."""

    token: WatchToken | None = None
    """Where the watch is; None: in or before the snapshot."""
    resumed: WatchToken | None = None
    """The token that this stream was resumed from, until it has caught up."""
    told: bool = False
    """Whether the consumer may hold documents of an earlier stream."""
    restart: str = _BROKEN_SNAPSHOT
    """Why the next snapshot comes again."""
    recent: dict[tuple[str, int], str] = field(default_factory=dict)
    """The versions that were told since the last bookmark, by topic and scope."""


class WatchSession:
    """The state of one watch."""

    def __init__(
        self,
        *,
        topics: Iterable[str] = (),
        namespaces: Iterable[str] = (),
        scopes: Iterable[Scope] = (),
        mode: WatchMode = WatchMode.LATEST,
        token: ResumeToken | None = None,
        bookmark_interval_seconds: float | None = None,
        patience_seconds: float | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        """See ``Client.watch``.

        Raises:
            InvalidArgument: nothing was selected.
        """
        self._request = service_pb2.WatchPoliciesRequest(topics=topics, namespaces=namespaces, mode=mode.number)
        self._request.scopes.extend(scope.number for scope in scopes)
        if bookmark_interval_seconds is not None:
            interval = Duration()
            interval.FromNanoseconds(round(bookmark_interval_seconds * 1e9))
            self._request.bookmark_interval.CopyFrom(interval)
        selected = [*map(namespace_of, self._request.topics), *self._request.namespaces]
        if not selected:
            raise invalid("NOTHING_SELECTED", Violation("topics", "NOTHING_SELECTED", "Name at least one topic or namespace to watch."))
        self._places: dict[str, _Place] = {name: _Place() for name in selected}
        if token is not None:
            for name, place in self._places.items():
                place.told = True
                place.token = token.namespaces.get(name)
                place.restart = "the token does not cover this namespace"
        self._policy = policy or RetryPolicy()
        self._patience = patience_seconds
        self._quiet_since: float | None = None
        self._failed = 0

    @property
    def token(self) -> ResumeToken:
        """Where the watch is, after everything that it has told."""
        return ResumeToken({name: place.token for name, place in self._places.items() if place.token is not None})

    def connect(self, now: float) -> tuple[service_pb2.WatchPoliciesRequest, list[WatchEvent]]:
        """A stream is about to be opened: what to send, and what to tell first."""
        if self._quiet_since is None:
            self._quiet_since = now
        request = service_pb2.WatchPoliciesRequest()
        request.CopyFrom(self._request)
        events: list[WatchEvent] = []
        for name, place in self._places.items():
            place.resumed = place.token
            if place.token is not None:
                request.resume[name].CopyFrom(place.token.message())
                continue
            place.recent.clear()
            if place.told:
                place.told = False
                events.append(Restarted(name, f"The namespace {name} begins again with a snapshot: {place.restart}."))
                place.restart = _BROKEN_SNAPSHOT
        return request, events

    def received(self, response: service_pb2.WatchPoliciesResponse, now: float) -> list[WatchEvent]:
        """A message has come: what it tells."""
        self._quiet_since = now
        content = response.WhichOneof("content")
        if content == "change":
            return self._change(response.change)
        if content == "bookmark":
            return self._bookmark(response.bookmark)
        if content == "status":
            return self._status(response.status)
        return []  # a newer service's

    def broke(self, error: TopicPoliciesError, now: float, chance: float) -> Interrupted:
        """The stream has ended.

        Args:
            error: why.
            now: the time.
            chance: at least 0, less than 1.

        Returns:
            What to tell, and with it how long to wait before connecting again.

        Raises:
            TopicPoliciesError: it makes no sense to try again, or patience is at its end.
        """
        if error.code is StatusCode.OUT_OF_RANGE and self.token.namespaces:
            for place in self._places.values():
                place.told = place.told or place.token is not None
                place.token = None
                place.restart = f"it can't be resumed ({error.message.rstrip('.')})"
        elif error.code not in _RESUMABLE:
            raise error
        self._failed += 1
        delay = self._policy.delay(self._failed, chance)
        quiet = now - (self._quiet_since if self._quiet_since is not None else now)
        if self._patience is not None and quiet + delay > self._patience:
            raise error
        return Interrupted(error, self._failed, delay)

    def _change(self, change: service_pb2.PolicyChange) -> list[WatchEvent]:
        place = self._places.setdefault(change.namespace, _Place())
        key = (change.topic, change.scope)
        if place.token is not None:
            known = place.recent.get(key)
            before = place.resumed.at(change.partition) if place.resumed is not None else ""
            if (known is not None and change.version <= known) or (before and change.position <= before):
                return []
            place.recent[key] = change.version
            place.token = place.token.folded(change.partition, change.position)
        snapshot = place.token is None
        place.told = True
        scope, origin = Scope(change.scope), Origin.of(change.origin)
        where = (change.version, change.previous_version, change.partition, change.position, origin, snapshot)
        if change.exists:
            return [Changed(change.namespace, change.topic, scope, change.policies, *where)]
        return [Deleted(change.namespace, change.topic, scope, *where)]

    def _bookmark(self, bookmark: service_pb2.Bookmark) -> list[WatchEvent]:
        place = self._places.setdefault(bookmark.namespace, _Place())
        synced = bookmark.kind == service_pb2.BOOKMARK_KIND_SYNCED
        if place.token is None and not synced:
            return []  # in the middle of a snapshot there is no place to resume from
        token = WatchToken.of(bookmark.token)
        place.token = token
        place.told = True
        place.recent.clear()
        self._failed = 0
        if synced:
            place.resumed = None
            return [Synced(bookmark.namespace, token)]
        return [Bookmark(bookmark.namespace, token)]

    def _status(self, status: service_pb2.NamespaceStatus) -> list[WatchEvent]:
        if status.state == service_pb2.NAMESPACE_STATE_FAILED:
            return [NamespaceUnavailable(status.namespace, status.message, status.reason)]
        return [NamespaceLoading(status.namespace, status.message)]


def namespace_of(topic: str) -> str:
    """``tenant/namespace`` of a topic's name, with or without its domain; the service judges whether it is valid."""
    return "/".join(topic.rpartition("://")[2].split("/")[:2])
