"""The requests of the gate: the one module of ``tests/promises`` that knows the API's messages, but for the policies themselves.

Tests call :class:`Api` and compare plain values. A watch's place is an opaque ``token`` here, whatever the API makes clients do to keep it.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

import grpc
from google.rpc import error_details_pb2, status_pb2

from topicpolicies.v1 import history_pb2 as past
from topicpolicies.v1 import service_pb2 as messages
from topicpolicies.v1.errors_pb2 import ErrorReason
from topicpolicies.v1.events_pb2 import ActorStanding
from topicpolicies.v1.history_pb2_grpc import PolicyHistoryServiceStub
from topicpolicies.v1.policies_pb2 import SCOPE_GLOBAL, SCOPE_LOCAL, PolicyDocument, Scope, TopicPolicies
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

LOCAL, GLOBAL = SCOPE_LOCAL, SCOPE_GLOBAL
RECONNECTING = [("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
"""Servers here start and end all the time: a connection is retried at once, and is not shared."""
INTERRUPTED = {"UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED", "UNKNOWN", "INTERNAL"}
"""Codes of calls of which it is not known whether they were made: their server was killed, or could not be reached."""
MALFORMED_TOKENS = ("!", "x" * 65_537, "eHh4")
"""What no server gives as a watch's place."""
_SECONDS = 30.0
_SERVICE = "topicpolicies.v1.TopicPoliciesService"
_SEVERAL = {"INVALID_REQUEST", "RULE_VIOLATED"}
"""The reasons of errors whose violations say what is wrong."""
_DELETED = {"APPLIED": "DELETED", "UNCHANGED": "ABSENT", "WOULD_APPLY": "WOULD_DELETE"}


class Refused(Exception):
    """A status that is not OK, with its details."""

    def __init__(self, status: status_pb2.Status) -> None:
        """Reads the details of a status."""
        self.code = grpc_name(status.code)
        self.message: str = status.message
        self.reason = ""
        """The error's reason; where it is that something is wrong with the request, what is wrong, if that is one thing."""
        self.metadata: dict[str, str] = {}
        self.violations: list[Violation] = []
        self.retry_seconds: float | None = None
        info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        for detail in status.details:
            if detail.Unpack(info):
                self.reason, self.metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(bad):
                self.violations = [Violation(each.field, each.reason, each.description) for each in bad.field_violations]
            elif detail.Unpack(retry):
                self.retry_seconds = retry.retry_delay.ToTimedelta().total_seconds()
        if self.reason in _SEVERAL and len(reasons := {each.reason for each in self.violations}) == 1:
            (self.reason,) = reasons
        super().__init__(f"{self.code} {self.reason}: {self.message}")


@dataclass(frozen=True)
class Violation:
    """One thing that is wrong with a request."""

    field: str
    reason: str
    sentence: str


@dataclass(frozen=True)
class Document:
    """The document of one topic and scope."""

    topic: str
    scope: Scope.ValueType
    version: str
    policies: TopicPolicies | None
    """None: there is no document."""
    disabled: bool = False
    """Whether topic policies are disabled for the topic, so that its document is not shown."""


@dataclass(frozen=True)
class Change:
    """The answer to an update or a deletion."""

    outcome: str
    """APPLIED, UNCHANGED, SKIPPED, WOULD_APPLY; DELETED, ABSENT, WOULD_DELETE."""
    version: str
    previous_version: str
    document: Document | None
    previous: Document | None
    request_id: str
    replayed: bool


@dataclass
class _Request:
    topic: str
    scope: Scope.ValueType = field(default=LOCAL, kw_only=True)
    version: str = field(default="", kw_only=True)
    """The version that the document must have."""
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()), kw_only=True)
    dry_run: bool = field(default=False, kw_only=True)
    actor: str = field(default="", kw_only=True)
    reason: str = field(default="", kw_only=True)
    with_previous: bool = field(default=False, kw_only=True)

    def _fields(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "scope": self.scope,
            "precondition": messages.Precondition(version=self.version) if self.version else None,
            "request_id": self.request_id,
            "validate_only": self.dry_run,
            "actor": self.actor,
            "reason": self.reason,
            "include_previous": self.with_previous,
        }


@dataclass
class Update(_Request):
    """A change of one document: the populated fields of ``policies`` unless there is a ``mask``."""

    policies: TopicPolicies = field(default_factory=TopicPolicies)
    mask: Sequence[str] = ()
    lists: Mapping[str, str] = field(default_factory=dict)
    """REPLACE, UNION or SUBTRACT, by the path of a list."""
    absent: bool = False
    """Whether there must be no document."""
    skip_if_absent: bool = False

    def message(self) -> messages.UpdatePolicyRequest:
        """Returns the request."""
        request = messages.UpdatePolicyRequest(
            policies=self.policies,
            list_operations={path: messages.ListOperation.Value(f"LIST_OPERATION_{name}") for path, name in self.lists.items()},
            skip_if_absent=self.skip_if_absent,
            **self._fields(),
        )
        if self.absent:
            request.precondition.exists = False
        request.update_mask.paths.extend(self.mask)
        return request


@dataclass
class Delete(_Request):
    """The deletion of one document."""

    def message(self) -> messages.DeletePolicyRequest:
        """Returns the request."""
        return messages.DeletePolicyRequest(**self._fields())


@dataclass(frozen=True)
class Effective:
    """What brokers enforce."""

    policies: TopicPolicies
    sources: dict[str, str]
    """TOPIC_LOCAL, TOPIC_GLOBAL, NAMESPACE or BROKER, by path."""
    disabled: bool
    local_version: str
    global_version: str


@dataclass(frozen=True)
class Page:
    """A page of a list."""

    documents: list[Document]
    next: str
    token: str
    """Where a watch continues."""


@dataclass(frozen=True)
class Entry:
    """One event of the log, as the history has it."""

    document: Document
    previous: Document | None
    kind: str
    outcome: str
    time: datetime
    changed: list[str]
    actor: str
    actor_standing: str
    claimed_actor: str
    principal: str
    owner: str
    reason: str
    request_id: str
    mask: list[str]
    producer: str
    stale: bool
    unexplained: bool
    ambiguous: bool


@dataclass(frozen=True)
class HistoryPage:
    """A page of a history."""

    entries: list[Entry]
    next: str
    gaps: list[str]
    """Why events may be missing: COMPACTED, LOG_REPLACED, OVERRUN or TRIMMED."""


@dataclass(frozen=True)
class Event:
    """One event of a watch, and where the watch of its namespace stands behind it."""

    kind: str
    """change, entry, synced, bookmark, status, reset or gap."""
    namespace: str
    token: str | None
    """Resumes the watch behind the last event that had a token of its own; None where it can't be resumed."""
    own_token: bool = False
    """Whether ``token`` came with this very event."""
    document: Document | None = None
    previous_version: str = ""
    previous: Document | None = None
    actor: str = ""
    producer: str = ""
    entry: Entry | None = None
    state: str = ""
    """Of a status: LOADING, READY, FAILED or DISABLED."""
    reason: str = ""
    """Of a status, a reset or a gap."""
    message: str = ""
    confirmed: float = 0.0
    """Of synced and bookmark: everything up to this time, in seconds by the server's clock, was sent; 0: nothing is confirmed."""
    raw: bytes = field(default=b"", repr=False)
    """All of it, as it came."""


def batch_message(changes: Sequence[Update | Delete]) -> messages.BatchUpdatePoliciesRequest:
    """Returns the request of a batch."""
    request = messages.BatchUpdatePoliciesRequest()
    for change in changes:
        if isinstance(change, Update):
            request.changes.add(update=change.message())
        else:
            request.changes.add(delete=change.message())
    return request


class Api:
    """One caller of a server. Methods raise :class:`Refused`."""

    def __init__(
        self, address: str, credentials: grpc.ChannelCredentials | None = None, metadata: Iterable[tuple[str, str | bytes]] = ()
    ) -> None:
        """Does not connect yet.

        Args:
            address: the host and the port.
            credentials: TLS; without, the connection is plain.
            metadata: sent with each call.
        """
        self._address, self._credentials, self._metadata = address, credentials, tuple(metadata)

    async def __aenter__(self) -> Self:
        """Makes the channel."""
        if self._credentials is None:
            self._channel = grpc.aio.insecure_channel(self._address, options=RECONNECTING)
        else:
            self._channel = grpc.aio.secure_channel(self._address, self._credentials, options=RECONNECTING)
        self._stub: Any = TopicPoliciesServiceStub(self._channel)
        self._past: Any = PolicyHistoryServiceStub(self._channel)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Closes the channel."""
        await self._channel.close()

    async def update(self, topic: str, policies: TopicPolicies | Mapping[str, Any] | None = None, **options: Any) -> Change:
        """Updates one document; ``options`` are those of :class:`Update`, and ``timeout``.

        Args:
            topic: the topic's full name.
            policies: the values: a message, or the arguments of one.
            options: as above.
        """
        timeout = options.pop("timeout", _SECONDS)
        values = policies if isinstance(policies, TopicPolicies) else TopicPolicies(**(policies or {}))
        return await self.send(Update(topic, values, **options), timeout)

    async def delete(self, topic: str, **options: Any) -> Change:
        """Deletes one document; ``options`` are those of :class:`Delete`, and ``timeout``."""
        timeout = options.pop("timeout", _SECONDS)
        return await self.send(Delete(topic, **options), timeout)

    async def send(self, change: Update | Delete, timeout: float = _SECONDS) -> Change:
        """Makes one change by a call of its own."""
        method = self._stub.UpdatePolicy if isinstance(change, Update) else self._stub.DeletePolicy
        return _change(await self._call(method, change.message(), timeout), change)

    async def batch(self, changes: Sequence[Update | Delete], timeout: float = _SECONDS) -> list[Change | Refused]:
        """Makes several changes in one request; each has its own answer, in their order."""
        answer = await self._call(self._stub.BatchUpdatePolicies, batch_message(changes), timeout)
        return [
            Refused(result.error) if result.WhichOneof("result") == "error" else _change(result.success, change)
            for result, change in zip(answer.results, changes, strict=True)
        ]

    async def get(self, topic: str, scope: Scope.ValueType = LOCAL, at_least_version: str = "", timeout: float = _SECONDS) -> Document:
        """Reads one document."""
        request = messages.GetPolicyRequest(topic=topic, scope=scope, at_least_version=at_least_version)
        return _document(await self._call(self._stub.GetPolicy, request, timeout))

    async def as_of(self, topic: str, moment: datetime | str, scope: Scope.ValueType = LOCAL) -> Document:
        """Reads a document as it was at a moment, or at a version."""
        request = past.GetPolicyAsOfRequest(topic=topic, scope=scope)
        if isinstance(moment, str):
            request.version = moment
        else:
            request.time.FromDatetime(moment)
        return _document(await self._call(self._past.GetPolicyAsOf, request, _SECONDS))

    async def effective(self, topic: str, timeout: float = _SECONDS) -> Effective:
        """Reads what brokers enforce."""
        answer = await self._call(self._stub.GetEffectivePolicy, messages.GetEffectivePolicyRequest(topic=topic), timeout)
        sources = {each.path: messages.PolicySource.Name(each.source).removeprefix("POLICY_SOURCE_") for each in answer.sources}
        return Effective(answer.policies, sources, answer.disabled, answer.local_version, answer.global_version)

    async def page(self, namespace: str, size: int = 0, after: str = "", scopes: Sequence[Scope.ValueType] = ()) -> Page:
        """Reads one page of a namespace's documents."""
        request = messages.ListPoliciesRequest(namespace=namespace, scopes=scopes, page_size=size, page_token=after)
        answer = await self._call(self._stub.ListPolicies, request, _SECONDS)
        return Page([_document(each) for each in answer.documents], answer.next_page_token, answer.resume_token)

    async def documents(self, namespace: str, size: int = 0) -> list[Document]:
        """Reads all documents of a namespace."""
        page = await self.page(namespace, size)
        found = page.documents
        while page.next:
            page = await self.page(namespace, size, page.next)
            found += page.documents
        return found

    async def history(self, topic: str = "", namespace: str = "", **options: Any) -> list[Entry]:
        """Reads the whole history of a topic or a namespace, page by page; ``options`` are those of ``history_page``."""
        found: list[Entry] = []
        page = await self.history_page(topic, namespace, **options)
        found += page.entries
        while page.next:
            page = await self.history_page(topic, namespace, **options, after=page.next)
            found += page.entries
        return found

    async def history_page(
        self,
        topic: str = "",
        namespace: str = "",
        *,
        scopes: Sequence[Scope.ValueType] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        actor: str | None = None,
        newest_first: bool = False,
        size: int = 0,
        after: str = "",
    ) -> HistoryPage:
        """Reads one page of the history of a topic or a namespace.

        Args:
            topic: of this topic.
            namespace: of this namespace.
            scopes: only these; none means both.
            since: only events of this time or later.
            until: only events before this time.
            actor: only events of this actor; "": only those without one.
            newest_first: the order.
            size: the most entries.
            after: where the page before ended.
        """
        request = past.ListHistoryRequest(
            topic=topic, namespace=namespace, scopes=scopes, oldest_first=not newest_first, page_size=size, page_token=after, actor=actor
        )
        if since is not None:
            request.start_time.FromDatetime(since)
        if until is not None:
            request.end_time.FromDatetime(until)
        answer = await self._call(self._past.ListHistory, request, _SECONDS)
        gaps = [past.HistoryGapReason.Name(each.reason).removeprefix("HISTORY_GAP_REASON_") for each in answer.gaps]
        return HistoryPage([_entry(each) for each in answer.entries], answer.next_page_token, gaps)

    async def info(self) -> dict[str, str]:
        """Reads the server's version, log (EMBEDDED, PULSAR, MEMORY) and writer mode (SOLE, SHARED, EXCLUSIVE, READ_ONLY)."""
        answer = await self._call(self._stub.GetServerInfo, messages.GetServerInfoRequest(), _SECONDS)
        log = messages.LogKind.Name(answer.log).removeprefix("LOG_KIND_")
        return {"version": answer.version, "log": log, "writer": messages.WriterMode.Name(answer.writer_mode).removeprefix("WRITER_MODE_")}

    async def watch(
        self,
        namespaces: Sequence[str] = (),
        topics: Sequence[str] = (),
        *,
        scopes: Sequence[Scope.ValueType] = (),
        mode: str = "LATEST",
        resume: Mapping[str, str | None] | None = None,
        bookmark_seconds: float | None = None,
        until_synced: bool = False,
        with_previous: bool = False,
        timeout: float | None = 60,
    ) -> AsyncGenerator[Event]:
        """Watches; ends with the stream.

        Args:
            namespaces: all topics of these.
            topics: these topics.
            scopes: only these; none means both.
            mode: LATEST, EVERY, or ENTRIES, which is the history.
            resume: tokens of earlier events, by namespace.
            bookmark_seconds: how often a bookmark is sent where nothing changes.
            until_synced: ends when all namespaces are complete.
            with_previous: with the documents before the changes.
            timeout: ends the stream with DEADLINE_EXCEEDED.
        """
        request: Any
        kept = {namespace: token for namespace, token in (resume or {}).items() if token is not None}
        if mode == "ENTRIES":
            request = past.WatchHistoryRequest(namespaces=namespaces, positions=kept)
        else:
            request = messages.WatchPoliciesRequest(
                namespaces=namespaces,
                topics=topics,
                scopes=scopes,
                mode=messages.WatchMode.Value(f"WATCH_MODE_{mode}"),
                include_previous=with_previous,
                resume_tokens=kept,
            )
        if bookmark_seconds is not None:
            request.bookmark_interval.FromTimedelta(timedelta(seconds=bookmark_seconds))
        method = self._past.WatchHistory if mode == "ENTRIES" else self._stub.WatchPolicies
        open_ = {*namespaces, *map(namespace_of, topics)}
        call = method(request, timeout=timeout, metadata=self._metadata)
        try:
            async for message in call:
                for event in _events(message.events, kept):
                    open_ -= {event.namespace} if event.kind == "synced" else set()
                    yield event
                if until_synced and not open_:
                    return
        except grpc.aio.AioRpcError as error:
            raise _refused(error) from None
        finally:
            call.cancel()

    async def send_bytes(self, method: str, content: bytes, timeout: float = _SECONDS) -> bytes:
        """Calls a unary method with bytes that no generated code made.

        Args:
            method: its name in the service.
            content: the message as it goes over the wire.
            timeout: seconds.
        """
        plain: Callable[[bytes], bytes] = bytes
        call = self._channel.unary_unary(f"/{_SERVICE}/{method}", request_serializer=plain, response_deserializer=plain)
        answer: bytes = await self._call(call, content, timeout)
        return answer

    async def _call(self, method: Any, request: Any, timeout: float) -> Any:
        try:
            return await method(request, timeout=timeout, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise _refused(error) from None


async def refusal(call: Awaitable[object]) -> Refused:
    """Awaits a call that must be refused, and returns why it was.

    Raises:
        AssertionError: it was not refused.
    """
    try:
        answer = await call
    except Refused as error:
        return error
    raise AssertionError(f"it was not refused, but answered: {answer}")


def grpc_name(code: int) -> str:
    """Returns the name of a status code."""
    return next(each.name for each in grpc.StatusCode if each.value[0] == code)


def _refused(error: grpc.aio.AioRpcError) -> Refused:
    status = status_pb2.Status(code=error.code().value[0], message=error.details() or "")
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status.MergeFromString(value if isinstance(value, bytes) else value.encode())
            status.message = error.details() or ""
    return Refused(status)


def _document(document: PolicyDocument) -> Document:
    policies = document.policies if document.HasField("policies") else None
    return Document(document.topic, document.scope, document.version, policies, document.disabled)


def _optional(message: Any, name: str) -> Document | None:
    return _document(getattr(message, name)) if message.HasField(name) else None


def _change(answer: messages.ChangeResult, change: Update | Delete) -> Change:
    outcome = messages.ChangeOutcome.Name(answer.outcome).removeprefix("CHANGE_OUTCOME_")
    if isinstance(change, Delete):
        outcome = _DELETED[outcome]
    document, previous = _optional(answer, "document"), _optional(answer, "previous")
    return Change(outcome, answer.version, answer.previous_version, document, previous, answer.request_id, answer.replayed)


def _entry(entry: past.HistoryEntry) -> Entry:
    origin = entry.origin
    return Entry(
        document=_document(entry.document),
        previous=_optional(entry, "previous"),
        kind=past.HistoryKind.Name(entry.kind).removeprefix("HISTORY_KIND_"),
        outcome=past.HistoryOutcome.Name(entry.outcome).removeprefix("HISTORY_OUTCOME_"),
        time=entry.time.ToDatetime(),
        changed=list(entry.changed.paths),
        actor=origin.actor,
        actor_standing=ActorStanding.Name(origin.actor_standing).removeprefix("ACTOR_STANDING_"),
        claimed_actor=origin.claimed_actor,
        principal=origin.principal,
        owner=origin.owner,
        reason=origin.reason,
        request_id=origin.request_id,
        mask=list(origin.update_mask.paths),
        producer=origin.producer_name,
        stale=entry.stale,
        unexplained=entry.unexplained,
        ambiguous=entry.ambiguous,
    )


def _events(events: Iterable[Any], tokens: dict[str, str]) -> list[Event]:
    """Returns a batch of events, each with the newest token of its namespace, and keeps these."""
    found = []
    for event in map(_event, events):
        if event.kind == "reset":
            tokens.pop(event.namespace, None)
        if event.token is not None:
            tokens[event.namespace] = event.token
        found.append(replace(event, token=tokens.get(event.namespace), own_token=event.token is not None))
    return found


def _event(event: Any) -> Event:
    namespace, kind = event.namespace, str(event.WhichOneof("content"))
    content: dict[str, Any] = {}
    if kind == "change":
        change = event.change
        content = {
            "document": _document(change.document),
            "previous_version": change.previous_version,
            "previous": _optional(change, "previous"),
            "actor": change.origin.actor,
            "producer": change.origin.producer_name,
        }
    elif kind == "entry":
        content = {"entry": _entry(event.entry), "document": _document(event.entry.document)}
    elif kind == "bookmark":
        kind = "synced" if event.bookmark.synced else "bookmark"
        content = {"confirmed": event.bookmark.confirmed_time.ToMilliseconds() / 1000}
    elif kind == "status":
        state = messages.NamespaceState.Name(event.status.state).removeprefix("NAMESPACE_STATE_")
        content = {"state": state, "reason": _reason(event.status.reason), "message": event.status.message}
    elif kind == "reset":
        content = {"reason": _reason(event.reset.reason), "message": event.reset.message}
    elif kind == "gap":
        content = {"reason": past.HistoryGapReason.Name(event.gap.reason).removeprefix("HISTORY_GAP_REASON_")}
    token = (event.position if isinstance(event, past.WatchHistoryEvent) else event.resume_token) or None
    return Event(kind=kind, namespace=namespace, token=token, raw=event.SerializeToString(), **content)


def _reason(reason: ErrorReason.ValueType) -> str:
    return ErrorReason.Name(reason).removeprefix("ERROR_REASON_")


async def _first(events: AsyncGenerator[Event]) -> Event:
    try:
        return await anext(events)
    finally:
        await events.aclose()


async def _one_of_a_batch(api: Api, change: Update) -> Change:
    (result,) = await api.batch([change])
    if isinstance(result, Refused):
        raise result
    return result


_VALUE = TopicPolicies(max_consumer_per_topic=3)
METHODS: dict[str, tuple[str, Callable[[Api, str], Awaitable[object]]]] = {
    "UpdatePolicy": ("change", lambda api, topic: api.send(Update(topic, _VALUE))),
    "UpdatePolicy, a dry run": ("change", lambda api, topic: api.send(Update(topic, _VALUE, dry_run=True))),
    "BatchUpdatePolicies": ("change", lambda api, topic: _one_of_a_batch(api, Update(topic, _VALUE))),
    "DeletePolicy": ("change", lambda api, topic: api.delete(f"{topic}-absent")),
    "GetPolicy": ("read", lambda api, topic: api.get(topic)),
    "GetPolicyAsOf": ("history", lambda api, topic: api.as_of(topic, "0")),
    "GetEffectivePolicy": ("read", lambda api, topic: api.effective(topic)),
    "ListPolicies": ("read", lambda api, topic: api.page(namespace_of(topic))),
    "ListHistory": ("history", lambda api, topic: api.history_page(namespace=namespace_of(topic))),
    "ListHistory, of a topic": ("history", lambda api, topic: api.history_page(topic)),
    "WatchPolicies": ("watch", lambda api, topic: _first(api.watch([namespace_of(topic)]))),
    "WatchPolicies, of a topic": ("watch", lambda api, topic: _first(api.watch(topics=[topic]))),
    "WatchPolicies, every change": ("watch history", lambda api, topic: _first(api.watch(topics=[topic], mode="EVERY"))),
    "WatchHistory": ("history", lambda api, topic: _first(api.watch([namespace_of(topic)], mode="ENTRIES"))),
    "GetServerInfo": ("", lambda api, topic: api.info()),
}
"""A call of every method, by its name and a note: the permissions that it needs, and the call for a topic."""
SERVICE = {
    each.name
    for file, service in ((messages, "TopicPoliciesService"), (past, "PolicyHistoryService"))
    for each in file.DESCRIPTOR.services_by_name[service].methods
}
"""The methods of both services."""


def namespace_of(topic: str) -> str:
    """Returns the namespace of a topic's full name."""
    return topic.rpartition("://")[2].rpartition("/")[0]
