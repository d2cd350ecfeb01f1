"""The client for threads. What is sent and raised is decided in the modules beside it; this one makes the calls and waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Self, TypeVar, Unpack
from weakref import WeakSet

import grpc

from .addresses import DEFAULT_TARGET
from .batching import Outcome, batches
from .cache import PolicyCache
from .channels import Options, Tls, Token, open_channel
from .edits import Edit
from .errors import PreconditionFailed, from_rpc_error
from .requests import (
    ChangeOptions,
    ChangeRequest,
    EditOptions,
    HistoryOptions,
    HistoryWatchOptions,
    Policies,
    Selection,
    UpdateArguments,
    as_of_request,
    complete,
    delete_request,
    history_request,
    update_request,
)
from .v1 import history_pb2, service_pb2
from .v1.history_pb2_grpc import PolicyHistoryServiceStub
from .v1.policies_pb2 import SCOPE_LOCAL, PolicyDocument, Scope, TopicPolicies
from .v1.service_pb2_grpc import TopicPoliciesServiceStub
from .watches import Watch, history_progress, policy_progress

_Response = TypeVar("_Response")
_Watch = TypeVar("_Watch")
_Page = TypeVar("_Page", service_pb2.ListPoliciesResponse, history_pb2.ListHistoryResponse)


class BaseClient:
    """What both clients have: a channel, its stubs, and defaults."""

    _api: Any = grpc

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        token: Token | None = None,
        tls: bool | Tls | None = None,
        actor: str = "",
        timeout: float = 30.0,
        options: Options = (),
    ) -> None:
        """Makes a client that is not connected yet: the first call connects.

        Args:
            target: the service's address, as gRPC understands it: ``host:6680``, or ``ipv4:10.0.0.1:6680,10.0.0.2:6680`` for several.
            token: a bearer token, or a function that returns the current one, such as a ``TokenFile``.
            tls: True or a ``Tls`` for TLS, False for plaintext; None: TLS, unless the target is on this machine.
            actor: who makes the changes that name no other actor.
            timeout: seconds that a call may take, unless it has a ``timeout`` of its own.
            options: further channel options of gRPC; they override the client's own.

        Raises:
            InvalidArgument: the target is a URL, or the token can't be sent, or would go to another machine without TLS.
            OSError: a file of ``tls`` can't be read.
        """
        self._channel = open_channel(self._api, target, token, tls, options)
        self.stub = TopicPoliciesServiceStub(self._channel)
        self.history_stub = PolicyHistoryServiceStub(self._channel)
        self._timeout = timeout
        self._actor = actor
        self._watches = WeakSet[Any]()

    def _opened(self, watch: _Watch) -> _Watch:
        self._watches.add(watch)
        return watch

    def _limit(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else timeout


class Client(BaseClient):
    """Changes, reads and watches topic policies. Any number of threads may share a client; close it when it is no longer needed.

    Answers are the messages of ``topicpolicies.v1``. A call that fails raises ``TopicPoliciesError`` or one of its subclasses; gRPC repeats
    it before that, as ``service_config.json`` says. ``timeout`` is in seconds and includes all attempts; None: the client's own.
    """

    stub: TopicPoliciesServiceStub
    """The generated stub, with the client's connection and token."""
    history_stub: PolicyHistoryServiceStub
    """The generated stub of the history."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all watches and calls, and closes the connection."""
        watches = list(self._watches)
        for watch in watches:
            watch.close()
        self._channel.close()
        for watch in watches:
            watch.join()

    def update(
        self, topic: str, policies: Policies | None = None, /, *, timeout: float | None = None, **arguments: Unpack[UpdateArguments]
    ) -> service_pb2.ChangeResult:
        """Changes some fields of one document, and no others.

        ``client.update(topic, max_producer_per_topic=5, message_ttl_in_seconds=None)`` sets one field and clears another. Paths below
        fields go into a mapping: ``client.update(topic, {"retention_policies.retention_time_in_minutes": 10})``, and so do single
        entries of maps: ``{"subscription_policies.`my-sub`": None}``. Without a ``mask``, the values that are set are changed leaf by leaf
        and entry by entry; a ``mask`` names fields that are replaced as a whole.

        Args:
            topic: the topic's name, ``persistent://tenant/namespace/topic``.
            policies: new values: a mapping from paths to values, in which None clears, or a message, whose set fields count.
            timeout: see the class.
            arguments: new values by field, in which None clears; and the options of ``UpdateOptions``.

        Raises:
            InvalidArgument: the request is wrong; ``violations`` lists everything that is wrong with it.
            PreconditionFailed: the document is not as ``version`` or ``exists`` demands.
            OutcomeUnknown: no answer came, or it says that the outcome is not known.
        """
        return self._change(self.stub.UpdatePolicy, update_request(topic, policies, **arguments), timeout)

    def delete(self, topic: str, /, *, timeout: float | None = None, **options: Unpack[ChangeOptions]) -> service_pb2.ChangeResult:
        """Deletes one document. Deleting an absent document is no error: the outcome is UNCHANGED. It raises what ``update`` raises."""
        return self._change(self.stub.DeletePolicy, delete_request(topic, **options), timeout)

    def batch(self, changes: Iterable[ChangeRequest], /, *, timeout: float | None = None) -> Iterator[Outcome]:
        """Makes any number of changes, up to 1,000 a call, and yields each with its result or its error, in order.

        Changes are made by ``update_request`` and ``delete_request``. Those of one document are applied in their order; a change that fails
        does not affect the others. Nothing is sent before the first result is asked for, and each call only after the results of the one
        before it were taken. ``timeout``: that of each call.
        """
        for batch in batches(changes, self._actor):
            try:
                response = self.stub.BatchUpdatePolicies(batch.request, timeout=self._limit(timeout))
            except grpc.RpcError as error:
                yield from batch.failed(error)
            else:
                yield from batch.outcomes(response)

    def edit(
        self, topic: str, change: Callable[[TopicPolicies], object], /, *, timeout: float | None = None, **options: Unpack[EditOptions]
    ) -> service_pb2.ChangeResult:
        """Reads a document, lets a function edit a copy, and sends only the difference; nothing is sent if there is none.

        The update applies only if the document has not changed since it was read. If it has, the function is called again on a fresh copy,
        at most 16 times in all, within the ``timeout``. So it must do nothing but edit the policies that it is called with.

        Raises:
            PreconditionFailed: another writer changed the document during each attempt.
            TypeError: the function returned other policies, or is a coroutine function.
        """
        edit = Edit(topic, change, self._limit(timeout), **options)
        while True:
            document = self.get(topic, scope=edit.scope, at_least_version=edit.at_least_version, timeout=edit.left)
            request = edit.request(document)
            if isinstance(request, service_pb2.ChangeResult):
                return request
            try:
                return self._change(self.stub.UpdatePolicy, request, edit.left)
            except PreconditionFailed as error:
                time.sleep(edit.pause(error))

    def get(
        self, topic: str, /, *, scope: Scope.ValueType = SCOPE_LOCAL, at_least_version: str = "", timeout: float | None = None
    ) -> PolicyDocument:
        """Reads one document. If it is absent, the result has no ``policies``; this is no error.

        ``at_least_version``: a version of this document, as an update returned it; the answer has this version or a later one.

        Raises:
            DeadlineExceeded: the version was not reached in time.
        """
        request = service_pb2.GetPolicyRequest(topic=topic, scope=scope, at_least_version=at_least_version)
        return self._call(self.stub.GetPolicy, request, timeout)

    def effective(
        self, topic: str, /, *, at_least_local_version: str = "", at_least_global_version: str = "", timeout: float | None = None
    ) -> service_pb2.EffectivePolicy:
        """Reads the policies that brokers enforce for a topic, with the level that sets each.

        A server that does not know the policies of namespaces and brokers refuses it: ``FailedPrecondition``, LEVELS_UNKNOWN.
        """
        request = service_pb2.GetEffectivePolicyRequest(
            topic=topic, at_least_local_version=at_least_local_version, at_least_global_version=at_least_global_version
        )
        return self._call(self.stub.GetEffectivePolicy, request, timeout)

    def list(
        self, namespace: str, /, *, scopes: Iterable[Scope.ValueType] = (), page_size: int = 0, timeout: float | None = None
    ) -> Iterator[PolicyDocument]:
        """Yields the documents of a namespace, ordered by topic and scope; see ``list_pages``."""
        for page in self.list_pages(namespace, scopes=scopes, page_size=page_size, timeout=timeout):
            yield from page.documents

    def list_pages(
        self, namespace: str, /, *, scopes: Iterable[Scope.ValueType] = (), page_size: int = 0, timeout: float | None = None
    ) -> Iterator[service_pb2.ListPoliciesResponse]:
        """Yields the pages of a list. A watch that resumes from the ``resume_token`` of the first page misses nothing.

        ``scopes``: none means both. ``page_size``: 0 means the service's 100. ``timeout``: that of each page.
        """
        request = service_pb2.ListPoliciesRequest(namespace=namespace, scopes=scopes, page_size=page_size)
        return self._pages(self.stub.ListPolicies, request, timeout)

    def server_info(self, *, timeout: float | None = None) -> service_pb2.ServerInfo:
        """Reads facts about the server."""
        return self._call(self.stub.GetServerInfo, service_pb2.GetServerInfoRequest(), timeout)

    def watch(self, **selection: Unpack[Selection]) -> Watch[service_pb2.WatchEvent]:
        """Watches documents: per namespace a snapshot, a bookmark that says SYNCED, then changes. docs/watch.md defines it.

        When its stream breaks it goes on where it was; a snapshot that broke off begins again, after a reset. ``with`` ends it.
        """
        return self._opened(Watch(self.stub.WatchPolicies, policy_progress(**selection)))

    def cache(self, **selection: Unpack[Selection]) -> PolicyCache:
        """Keeps a copy of the selected documents in memory, in a thread of its own. ``with client.cache(...) as cache`` ends it."""
        selection["resume_tokens"] = None  # a copy begins with a snapshot
        return PolicyCache(self.watch(**selection))

    def history(self, *, timeout: float | None = None, **options: Unpack[HistoryOptions]) -> Iterator[history_pb2.HistoryEntry]:
        """Yields the history of a topic or a namespace, the last event first; see ``history_pages``."""
        for page in self.history_pages(timeout=timeout, **options):
            yield from page.entries

    def history_pages(
        self, *, timeout: float | None = None, **options: Unpack[HistoryOptions]
    ) -> Iterator[history_pb2.ListHistoryResponse]:
        """Yields the pages of a history, which say where events may be missing. ``FailedPrecondition``, HISTORY_OFF: there is none."""
        return self._pages(self.history_stub.ListHistory, history_request(**options), timeout)

    def as_of(
        self, topic: str, time_or_version: datetime | str, /, *, scope: Scope.ValueType = SCOPE_LOCAL, timeout: float | None = None
    ) -> PolicyDocument:
        """Reads a document as it was at a time (without a zone: a local time), or the document that has a version.

        Raises:
            OutOfRange: the history can't say for certain what the document was; the metadata says why.
            FailedPrecondition: the server keeps no history (HISTORY_OFF).
        """
        return self._call(self.history_stub.GetPolicyAsOf, as_of_request(topic, time_or_version, scope), timeout)

    def watch_history(
        self,
        namespaces: Iterable[str],
        /,
        *,
        positions: Mapping[str, str] | None = None,
        **options: Unpack[HistoryWatchOptions],
    ) -> Watch[history_pb2.WatchHistoryEvent]:
        """Watches the history: every event as the server records it, from ``positions`` or the first one on; resumes as ``watch`` does."""
        return self._opened(Watch(self.history_stub.WatchHistory, history_progress(namespaces, positions, **options)))

    def _call(self, method: Callable[..., _Response], request: Any, timeout: float | None, request_id: str = "") -> _Response:
        try:
            return method(request, timeout=self._limit(timeout))
        except grpc.RpcError as error:
            raise from_rpc_error(error, request_id) from error

    def _change(
        self, method: Callable[..., service_pb2.ChangeResult], request: ChangeRequest, timeout: float | None
    ) -> service_pb2.ChangeResult:
        complete(request, self._actor)
        return self._call(method, request, timeout, "" if request.validate_only else request.request_id)

    def _pages(self, method: Callable[..., _Page], request: Any, timeout: float | None) -> Iterator[_Page]:
        while True:
            page = self._call(method, request, timeout)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token
