"""The asyncio client. What is sent, repeated and raised is decided in the modules beside it; this one makes the calls and waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from datetime import datetime
from functools import partial
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, Unpack, overload
from weakref import WeakSet

import grpc
from grpc import aio

from .addresses import DEFAULT_TARGET, addresses_of
from .aio_changes import Source, run_changes
from .arguments import instance
from .cache import AsyncPolicyCache
from .channels import Tls, Token, check_token, credentials_for, metadata_for, options_for
from .clocks import AsyncClock, SystemClock
from .connections import AsyncConnections
from .documents import Document, Scope, known_documents
from .edits import EditAttempts, EditPlan, check_returned, copy_of
from .effective import EffectivePolicies, EffectiveView
from .errors import Conflict, TopicPoliciesError, client_closed, from_rpc_error
from .freshness import unconfirmed_since
from .history import HistoryEntry, HistoryPage, history_request
from .listing import AsyncListing, Page
from .names import namespace_of
from .options import ChangeOptions, EditOptions, HistoryOptions, Selection, UpdateArguments, WatchOptions
from .pipelining import Pipeline
from .requests import Deletion, Policies, Update, delete_request, effective_request, get_request, list_request, update_request
from .results import DeleteResult, Settled, UpdateResult
from .retries import WATCH_PAUSES, Attempts, RetryPolicy
from .routes import Routes
from .server_info import ServerInfo
from .timeouts import limit_of, seconds_of
from .v1 import service_pb2
from .v1.policies_pb2 import TopicPolicies
from .watch_session import WatchSession
from .watches import AsyncWatch

if TYPE_CHECKING:
    from .v1.service_pb2_grpc import TopicPoliciesServiceAsyncStub

_Response = TypeVar("_Response")
Change: TypeAlias = Callable[[TopicPolicies], object] | Callable[[TopicPolicies], Awaitable[object]]
"""The function of ``AsyncClient.edit``, which edits a copy of a document in place; it may be a coroutine function."""


class AsyncClient:
    """Changes, reads and watches topic policies, in one event loop. Close it when it is no longer needed.

    It belongs to the event loop of its first call: in another one, as of a second ``asyncio.run``, its calls raise
    ``FailedPrecondition``.

    A call that fails raises ``TopicPoliciesError`` or one of its subclasses. A call that is safe to repeat is repeated until its time
    is over; see ``RetryPolicy``. ``timeout`` is in seconds and, where nothing else is said, includes all attempts of the call; None: the
    client's own ``timeout``.
    """

    def __init__(  # noqa: PLR0913 - options, by keyword
        self,
        target: str = DEFAULT_TARGET,
        *,
        tls: bool | Tls | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        token: Token | None = None,
        actor: str = "",
        timeout: float = 30.0,
        retries: RetryPolicy | None = None,
        metadata: Iterable[tuple[str, str]] = (),
        options: Iterable[tuple[str, int | str]] = (),
        channel: aio.Channel | None = None,
        clock: AsyncClock | None = None,
    ) -> None:
        """Makes a client that is not connected yet, also outside the event loop: the first call connects.

        Args:
            target: the service's address, as gRPC understands it, or the addresses of several sidecars, separated by commas: when one
                fails, the client uses the next. Changes of a namespace that has a leader are sent to the leader, even if it is not among
                them.
            tls: True or a ``Tls`` for TLS, False for plaintext; None: TLS, unless the target is on this machine.
            credentials: gRPC channel credentials, which are used instead of ``tls``.
            token: a bearer token, or a function that returns the current one; the function is called for each call and must not block. If
                it raises, or returns no token, the call raises, but a watch tries again.
            actor: the name of who makes the changes, in printable ASCII; it is stored in the log with each change that names no other.
            timeout: seconds that a call may take, including its repeats, unless the call has a ``timeout`` of its own.
            retries: how calls are repeated, and how long watches pause; ``NO_RETRIES``: no call is repeated, and no watch resumed.
            metadata: pairs of further metadata, sent with every call.
            options: further channel options of gRPC; they override the client's own.
            channel: an open channel, which is used instead of ``target``, ``tls``, ``credentials`` and ``options``. The client uses no
                other connection, and closing the client leaves the channel open.
            clock: the source of time and of random numbers; for tests.

        Raises:
            InvalidArgument: the actor, the token or ``metadata`` can't be sent as metadata, the token would go to another machine without
                TLS, the target is a URL, ``retries`` is no ``RetryPolicy``.
            OSError: a file of ``tls`` can't be read.
        """
        addresses = addresses_of(target)
        trusted = (credentials or credentials_for(target, tls)) if channel is None else None
        given = tuple(options)

        def connect(address: str) -> aio.Channel:
            if channel is not None:
                return channel
            check_token(address, trusted, token)
            chosen = options_for(address, tls, given)
            if trusted is None:
                return aio.insecure_channel(address, options=chosen)
            return aio.secure_channel(address, trusted, options=chosen)

        if channel is None:
            check_token(target, trusted, token)
        self._owns_channels = channel is None
        self._target = target
        self._timeout = seconds_of(timeout, timeout)
        self._retries = RetryPolicy() if retries is None else instance(retries, RetryPolicy, "retries")
        self._pauses = WATCH_PAUSES if retries is None else retries
        self._clock: AsyncClock = clock or SystemClock()
        routes = Routes(addresses if channel is None else (target,), follows_leaders=channel is None)
        self._connections = AsyncConnections(connect, routes, metadata_for(actor, token, metadata), self._clock)
        self._watches: WeakSet[AsyncWatch] = WeakSet()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._target}{', closed' if self._connections.closed.is_set() else ''}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all calls and watches, and closes the connections. A given channel stays open, and its calls end by themselves."""
        self._connections.closed.set()
        for watch in list(self._watches):
            await watch.close()
        if self._owns_channels:
            await self._connections.close()

    @property
    def stub(self) -> TopicPoliciesServiceAsyncStub:
        """The generated stub for the address in use, with the client's connection, metadata and token; its calls are not repeated."""
        return self._connections.stub(self._connections.routes.address)

    async def update(
        self, topic: str, policies: Policies | None = None, /, *, timeout: float | None = None, **arguments: Unpack[UpdateArguments]
    ) -> UpdateResult:
        """Changes some fields of one document, and no others.

        ``await client.update(topic, max_producer_per_topic=5, message_ttl_in_seconds=None)`` sets one field and clears another. Paths below
        fields go into a mapping: ``await client.update(topic, {"retention_policies.retention_time_in_minutes": 10})``, and so do
        single entries of maps: ``{"subscription_policies.`my-sub`": None}``. Without a ``mask``, the values that are set are changed leaf
        by leaf and entry by entry; a ``mask`` names fields that are replaced as a whole.

        Args:
            topic: the topic's name, ``persistent://tenant/namespace/topic``.
            policies: new values: a mapping from paths to values, in which None clears, or a message, whose set fields count.
            timeout: seconds; see the class.
            arguments: new values by field, in which None clears; and the options of ``UpdateOptions``.

        Raises:
            InvalidArgument: the request is wrong; ``violations`` lists everything that is wrong with it.
            Conflict: the document does not have the version ``etag``.
            AlreadyExists: there is a document, and ``must_not_exist`` was set.
            OutcomeUnknown: the change was sent, and no answer came, or the answer says that the outcome is not known.
        """
        return await self._update(update_request(topic, policies, **arguments), timeout)

    @overload
    def edit(
        self, topic: str, change: Change, /, *, timeout: float | None = ..., **options: Unpack[EditOptions]
    ) -> Coroutine[Any, Any, UpdateResult]: ...

    @overload
    def edit(self, topic: str, /, *, timeout: float | None = ..., **options: Unpack[EditOptions]) -> AsyncEdit: ...

    def edit(
        self, topic: str, change: Change | None = None, /, *, timeout: float | None = None, **options: Unpack[EditOptions]
    ) -> Coroutine[Any, Any, UpdateResult] | AsyncEdit:
        """Reads a document, lets the caller edit a copy, and sends only the difference; nothing is sent if there is none.

        The update applies only if the document has not changed since it was read. With a function, ``edit`` handles that: if the document
        has changed, it calls the function again on a fresh copy, at most 16 times in all, and no longer than ``timeout``. So the function,
        which may be a coroutine function, must do nothing but edit the copy in place: ``await client.edit(topic, double_the_retention)``.

        Without a function the result is a context manager: ``async with client.edit(topic) as policies: ...``. A block can't run again: if
        the document has changed since it was read, leaving the block raises ``Conflict``. A block that raises sends nothing.

        Args:
            topic: the topic's name.
            change: a function that edits the policies that it is called with.
            timeout: seconds for all of it; for a block, seconds for the read before it and for the update after it. See the class.
            options: the options of ``EditOptions``, such as ``scope`` and ``skip_if_absent``.

        Raises:
            Conflict: the document was changed by another writer; with a function, during each attempt.
            InvalidArgument: the function returned other policies, instead of editing those that it was given.
        """
        plan = EditPlan(topic=topic, **options)
        read = partial(self.get, topic, scope=plan.scope)
        if change is None:
            return AsyncEdit(plan, partial(read, timeout=timeout), partial(self._send_edit, plan, timeout=timeout))
        return self._edit(plan, read, change, timeout)

    def update_many(
        self,
        changes: Iterable[Update | Deletion] | AsyncIterable[Update | Deletion],
        /,
        *,
        max_in_flight: int = 1_000,
        timeout: float | None = None,
    ) -> AsyncGenerator[Settled, None]:
        """Makes many changes over one stream, and yields the result or the error of each, in the order in which they are settled.

        Changes of one document are applied in their order. The whole is not atomic: a change that fails does not affect the others, and a
        change that can't be sent is settled with ``InvalidArgument``. ``changes`` is read at most ``max_in_flight`` ahead of the results.
        Changes that wait to be sent are sent as one batch, and no batch waits for more. A stream that breaks is replaced by another, over
        which the changes in flight are sent again, with the same request ids. Close the iterator (``contextlib.aclosing``) if you leave it
        early.

        Args:
            changes: the updates and deletions.
            max_in_flight: how many changes may be in flight at most: read from ``changes``, and without a result. There is a limit of
                16 MiB too.
            timeout: seconds without an answer after which the call gives up; None: the client's own.

        Raises:
            InvalidArgument: ``max_in_flight`` is not a whole number from 1.
            TopicPoliciesError: the call gave up; each change in flight was yielded before, with its error.
        """
        patience = seconds_of(timeout, self._timeout)
        pipeline = Pipeline(
            self._retries, self._connections.routes, max_in_flight=max_in_flight, patience_seconds=patience, now=self._clock.now()
        )
        return run_changes(self._connections, pipeline, Source(changes))

    async def delete(self, topic: str, /, *, timeout: float | None = None, **options: Unpack[ChangeOptions]) -> DeleteResult:
        """Deletes one document. Deleting an absent document is no error: the outcome is ``DeleteOutcome.ABSENT``.

        Args:
            topic: the topic's name, ``persistent://tenant/namespace/topic``.
            timeout: seconds; see the class.
            options: the options of ``ChangeOptions``, such as ``scope`` and ``etag``.

        Raises:
            Conflict: the document, or its absence, does not have the version ``etag``.
            OutcomeUnknown: the deletion was sent, and no answer came, or the answer says that the outcome is not known.
        """
        request = delete_request(topic, **options)
        change = None if request.validate_only else request.request_id
        response, _ = await self._call(lambda stub: stub.DeletePolicy, request, timeout, namespace_of(request.topic), change)
        return DeleteResult.of(response)

    async def get(
        self,
        topic: str,
        /,
        *,
        scope: Scope = Scope.LOCAL,
        at_least_version: str = "",
        as_of_time: datetime | None = None,
        as_of_version: str = "",
        timeout: float | None = None,
    ) -> Document:
        """Reads one document. If it is absent, the result has no ``policies``; this is no error.

        At most one of ``at_least_version``, ``as_of_time`` and ``as_of_version`` may be given.

        Args:
            topic: the topic's name.
            scope: the scope of the document.
            at_least_version: a version of this document, as an update returned it; the answer has this version or a later one.
            as_of_time: reads the document as it was at this time, from the server's history. A time without a zone is local.
            as_of_version: reads the document that had this version, from the server's history.
            timeout: seconds; see the class.

        Raises:
            DeadlineExceeded: the version was not reached in time.
            OutOfRange: the history can't say for certain what the document was; the metadata says why.
            FailedPrecondition: the server keeps no history.
        """
        request = get_request(topic, [scope], at_least_version=at_least_version, as_of_time=as_of_time, as_of_version=as_of_version)
        response, since = await self._call(lambda stub: stub.GetPolicy, request, timeout, namespace_of(request.topic))
        return Document.of(response.documents[0], since)

    async def get_both(self, topic: str, /, *, as_of_time: datetime | None = None, timeout: float | None = None) -> dict[Scope, Document]:
        """Reads the documents of both scopes in one call, as they are or as they were at ``as_of_time``; see ``get``."""
        request = get_request(topic, Scope, as_of_time=as_of_time)
        response, since = await self._call(lambda stub: stub.GetPolicy, request, timeout, namespace_of(request.topic))
        return {document.scope: document for document in known_documents(response.documents, since)}

    async def effective(
        self,
        topic: str,
        /,
        *,
        view: EffectiveView = EffectiveView.ENFORCED,
        at_least_local_version: str = "",
        at_least_global_version: str = "",
        timeout: float | None = None,
    ) -> EffectivePolicies:
        """Reads the effective policies of a topic: from its documents, its namespace's policies and the brokers' configuration.

        Args:
            topic: the topic's name.
            view: how the levels are combined: as brokers enforce them, or as their admin API shows them.
            at_least_local_version: a version of the LOCAL document; the answer rests on this one or a later one.
            at_least_global_version: a version of the GLOBAL document; the answer rests on this one or a later one.
            timeout: seconds; see the class.

        Raises:
            NotFound: there is no such topic or namespace.
            FailedPrecondition: the server does not know the policies of namespaces and brokers.
        """
        request = effective_request(topic, view, at_least_local_version, at_least_global_version)
        answer = await self._call(lambda stub: stub.GetEffectivePolicy, request, timeout, namespace_of(request.topic))
        return EffectivePolicies.of(*answer)

    def list(self, namespace: str, /, *, scopes: Iterable[Scope] = (), page_size: int = 0, timeout: float | None = None) -> AsyncListing:
        """Lists the documents of a namespace, ordered by topic and scope. Each page is fetched when the iteration reaches it.

        Args:
            namespace: ``tenant/namespace``.
            scopes: the scopes to list; none: both.
            page_size: documents of one page; 0: the service chooses.
            timeout: seconds for each page; see the class.
        """

        async def fetch(request: service_pb2.ListPoliciesRequest) -> Page:
            return await self._call(lambda stub: stub.ListPolicies, request, timeout, request.namespace)

        return AsyncListing(list_request(namespace, scopes, page_size), fetch)

    async def history(self, *, timeout: float | None = None, **options: Unpack[HistoryOptions]) -> AsyncIterator[HistoryEntry]:
        """Yields what happened to the documents of a topic or a namespace, as the server recorded it. Pages are fetched as needed.

        ``history_pages`` also says where events may be missing.

        Args:
            timeout: seconds for each page; see the class.
            options: the topic or the namespace, and what to select: ``HistoryOptions``.
        """
        async for page in self.history_pages(timeout=timeout, **options):
            for entry in page.entries:
                yield entry

    async def history_pages(self, *, timeout: float | None = None, **options: Unpack[HistoryOptions]) -> AsyncIterator[HistoryPage]:
        """Yields the pages of a history, which also say where events may be missing. ``timeout`` is for each page; see ``history``."""
        request = history_request(**options)
        namespace = request.namespace or namespace_of(request.topic)
        while True:
            page = HistoryPage.of(*await self._call(lambda stub: stub.ListHistory, request, timeout, namespace))
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """Reads the version, the features and the limits of the server that answers."""
        message, _ = await self._call(lambda stub: stub.GetServerInfo, service_pb2.GetServerInfoRequest(), timeout, "")
        return ServerInfo.of(message)

    def watch(self, **options: Unpack[WatchOptions]) -> AsyncWatch:
        """Watches documents: yields for each namespace a snapshot, ``Synced``, and then the changes.

        When its stream breaks, the watch resumes by itself. The iteration raises ``TopicPoliciesError`` only if trying again is pointless,
        or if ``patience`` is over.

        Args:
            options: what to watch, and how: ``Selection``, ``WatchOptions``.

        Raises:
            InvalidArgument: no topic and no namespace was named, or an option is wrong.
        """
        watch = AsyncWatch(self._connections, WatchSession(policy=self._pauses, **options))
        self._watches.add(watch)
        return watch

    def cache(self, **selection: Unpack[Selection]) -> AsyncPolicyCache:
        """Opens a local copy of documents that is kept current, with listeners; close it, or use it as a context manager.

        Args:
            selection: which documents: ``Selection``.

        Raises:
            InvalidArgument: no topic and no namespace was named, or an option is wrong.
        """
        return AsyncPolicyCache(self.watch(**selection))

    async def _update(self, request: service_pb2.UpdatePolicyRequest, timeout: float | None) -> UpdateResult:
        change = None if request.validate_only else request.request_id
        response, _ = await self._call(lambda stub: stub.UpdatePolicy, request, timeout, namespace_of(request.topic), change)
        return UpdateResult.of(response)

    async def _edit(self, plan: EditPlan, read: Callable[..., Awaitable[Document]], change: Change, timeout: float | None) -> UpdateResult:
        clock = self._clock
        attempts = EditAttempts(clock.now() + seconds_of(timeout, self._timeout))
        document = plan.start
        while True:
            document = document or await read(at_least_version=attempts.at_least, timeout=attempts.left(clock.now()))
            policies = copy_of(document)
            if not plan.skips(document):
                changing = change(policies)
                check_returned(await changing if isawaitable(changing) else changing, policies)
            try:
                return await self._send_edit(plan, document, policies, timeout=attempts.left(clock.now()))
            except Conflict as conflict:
                pause = attempts.after_conflict(conflict, clock.now(), clock.random())
            document = None
            if await self._connections.wait(pause):
                raise client_closed()

    async def _send_edit(self, plan: EditPlan, document: Document, edited: TopicPolicies, *, timeout: float | None) -> UpdateResult:
        request = plan.request(document, edited)
        return plan.unsent(document) if request is None else await self._update(request, timeout)

    async def _call(
        self,
        method: Callable[[TopicPoliciesServiceAsyncStub], Callable[..., aio.UnaryUnaryCall[Any, _Response]]],
        request: Any,
        timeout: float | None,
        namespace: str,
        change: str | None = None,
    ) -> tuple[_Response, datetime | None]:
        """Makes a call, and repeats it as the retry policy says. Returns the answer, and since when it can't be confirmed.

        ``namespace``: what the call concerns, for its route; "": none. ``change``: the request id of a change; None: the call is a read.
        """
        clock, routes = self._clock, self._connections.routes
        attempts = Attempts(self._retries, clock.now() + seconds_of(timeout, self._timeout), change)
        while True:
            address = routes.to(namespace)
            try:
                call = method(self._connections.stub(address))(request, timeout=limit_of(attempts.timeout(clock.now())))
                return await call, unconfirmed_since(await call.trailing_metadata())
            except aio.AioRpcError as error:
                failure = from_rpc_error(error)
            except TopicPoliciesError as error:
                raise attempts.unsent(error) from error.__cause__
            except asyncio.CancelledError:
                cut_off = self._connections.cut_off()
                if cut_off is None:
                    raise
                if self._connections.closed.is_set():
                    raise attempts.given_up(cut_off) from None
                failure = cut_off
            redirected = routes.failed(address, namespace, failure)
            if await self._connections.wait(attempts.failed(failure, clock.now(), clock.random(), redirected=redirected)):
                raise attempts.given_up(failure)


class AsyncEdit:
    """Edits a document in an ``async with`` block; see ``AsyncClient.edit``."""

    def __init__(
        self,
        plan: EditPlan,
        read: Callable[[], Awaitable[Document]],
        send: Callable[[Document, TopicPolicies], Awaitable[UpdateResult]],
    ) -> None:
        self._plan = plan
        self._read = read
        self._send = send
        self._document: Document | None = None
        self._policies = TopicPolicies()
        self.result: UpdateResult | None = None
        """The result of the update; None while the block runs, and if it raised."""

    async def __aenter__(self) -> TopicPolicies:
        self._document = self._plan.start or await self._read()
        self._policies = copy_of(self._document)
        return self._policies

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None and self._document is not None:
            self.result = await self._send(self._document, self._policies)
