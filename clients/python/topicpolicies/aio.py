"""The asyncio client. What is sent, repeated and told is decided in the modules beside it; here is only the calling and waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
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
from .cache import AsyncPolicyCache
from .channels import Tls, Token, check_token, credentials_for, metadata_for, options_for
from .clocks import AsyncClock, SystemClock
from .documents import Document, Scope, known
from .edits import Runs, check_returned, copy_of, edit_request, unchanged
from .effective import EffectivePolicies, EffectiveView
from .errors import Conflict, TopicPoliciesError, closed, from_rpc_error
from .freshness import unconfirmed_since
from .history import HistoryEntry, HistoryPage, history_request
from .lines import AsyncLine
from .listing import AsyncListing, Page
from .names import namespace_of
from .options import ChangeOptions, EditOptions, HistoryOptions, Selection, UpdateArguments, WatchOptions
from .patience import limit_of, seconds_of
from .pipelining import Pipeline
from .requests import Deletion, Policies, Update, delete_request, effective_request, get_request, list_request, update_request
from .results import DeleteResult, Settled, UpdateResult
from .retries import WATCH_PAUSES, Attempts, RetryPolicy
from .routes import Routes
from .server_info import ServerInfo
from .v1 import service_pb2
from .v1.policies_pb2 import TopicPolicies
from .watches import AsyncWatch
from .watching import WatchSession

if TYPE_CHECKING:
    from .v1.service_pb2_grpc import TopicPoliciesServiceAsyncStub

_Response = TypeVar("_Response")
Change: TypeAlias = Callable[[TopicPolicies], object] | Callable[[TopicPolicies], Awaitable[object]]
"""What edits a copy of a document; it may be a coroutine function."""


class AsyncClient:
    """Changes, reads and follows topic policies, from one event loop. Close it when it is no longer needed.

    Every call raises ``TopicPoliciesError`` or one of its kinds when it fails. What is safe to repeat is repeated until the
    call's time is over; see ``RetryPolicy``. ``timeout`` is always in seconds, all attempts included; None: the client's own.
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
        """Opens nothing yet, so it may be made outside the event loop: the first call connects.

        Args:
            target: the service's address, as gRPC understands it, or the addresses of several sidecars, separated by commas, which take
                turns when they fail. Changes of a namespace that one sidecar leads are sent to that one, wherever it is.
            tls: True or a ``Tls`` for TLS, False for none; None: TLS, unless the target is on this machine.
            credentials: gRPC's own credentials instead.
            token: a bearer token, or a function that gives the present one, which is called for every call and must not wait for long.
            actor: who asks for the changes; it is written into the log beside them.
            timeout: seconds that a call may take in all, its repeats included, where the call names no other.
            retries: how calls are repeated; ``NO_RETRIES`` for not at all.
            metadata: further metadata of every call.
            options: further channel options.
            channel: an open channel, instead of all that concerns the connection; it stays open when the client is closed, which goes
                nowhere else.
            clock: the time; for tests.

        Raises:
            InvalidArgument: the actor can't be sent, the token would go to another machine without TLS, or the target is a URL.
        """
        addresses = addresses_of(target)
        trusted = (credentials or credentials_for(target, tls)) if channel is None else None
        chosen = options_for(tls, options)

        def connect(address: str) -> aio.Channel:
            if channel is not None:
                return channel
            check_token(address, trusted, token)
            if trusted is None:
                return aio.insecure_channel(address, options=chosen)
            return aio.secure_channel(address, trusted, options=chosen)

        if channel is None:
            check_token(target, trusted, token)
        self._owns_channels = channel is None
        self._target = target
        self._timeout = seconds_of(timeout, timeout)
        self._retries = retries or RetryPolicy()
        self._pauses = retries or WATCH_PAUSES
        self._clock: AsyncClock = clock or SystemClock()
        routes = Routes(addresses if channel is None else (target,), follows=channel is None)
        self._line = AsyncLine(connect, routes, metadata_for(actor, token, metadata), self._clock)
        self._watches: WeakSet[AsyncWatch] = WeakSet()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._target}{', closed' if self._line.closed.is_set() else ''}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all calls and watches, and the connection."""
        self._line.closed.set()
        for watch in list(self._watches):
            await watch.close()
        if self._owns_channels:
            await self._line.close()

    @property
    def stub(self) -> TopicPoliciesServiceAsyncStub:
        """The generated stub at the present address, with the same connection and metadata; it repeats nothing."""
        return self._line.stub(self._line.routes.address)

    async def update(
        self, topic: str, policies: Policies | None = None, /, *, timeout: float | None = None, **arguments: Unpack[UpdateArguments]
    ) -> UpdateResult:
        """Changes some fields of one document, and no others.

        ``await client.update(topic, max_producer_per_topic=5, message_ttl_in_seconds=None)`` sets one field and clears another. Paths below
        fields go into a mapping: ``await client.update(topic, {"retention_policies.retention_time_in_minutes": 10})``, and so do
        single entries of maps: ``{"subscription_policies.`my-sub`": None}``. What is set is changed leaf by leaf and entry by entry;
        ``mask`` names what is replaced as a whole.

        Args:
            topic: its name, ``persistent://tenant/namespace/topic``.
            policies: new values: a mapping from paths to values, in which None clears, or a message, whose set fields count.
            timeout: see the class.
            arguments: new values by field, in which None clears; and all that ``UpdateOptions`` says.

        Raises:
            InvalidArgument: the request is wrong; it lists all that is.
            Conflict: the document has another version than ``etag``.
            AlreadyExists: there is a document, and ``must_not_exist`` was set.
            OutcomeUnknown: the change was sent, and its answer did not come, or says so.
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
        """Changes a document by editing a copy of it; what differs afterwards is sent, and nothing if nothing does.

        The change holds only if nobody else changed the document meanwhile. With a function, which may be a coroutine function, that is no
        concern of yours: it is called again on a fresh copy, a bounded number of times, so it must do nothing but edit.
        ``await client.edit(topic, double_the_retention)``. All of it takes no longer than ``timeout``.

        Without a function it is a context: ``async with client.edit(topic) as policies: policies.max_producer_per_topic += 1``. A block
        can't be run again, and what it wrote may depend on all that it read: if somebody else was faster, leaving it raises ``Conflict``.
        A block that raises sends nothing. Entering it and leaving it may each take ``timeout``.

        Raises:
            Conflict: the document was changed by somebody else, with a function: again and again.
            InvalidArgument: the function returned other policies, instead of editing those that it was given.
        """
        read = partial(self.get, topic, scope=options.get("scope", Scope.LOCAL))
        send = partial(self._send_edit, actor=options.get("actor", ""), reason=options.get("reason", ""))
        if change is None:
            return AsyncEdit(partial(read, timeout=timeout), partial(send, timeout=timeout))
        return self._edit(read, change, send, timeout)

    def update_many(
        self,
        changes: Iterable[Update | Deletion] | AsyncIterable[Update | Deletion],
        /,
        *,
        max_in_flight: int = 1_000,
        timeout: float | None = None,
    ) -> AsyncIterator[Settled]:
        """Makes many changes over one stream, and yields what became of each, in the order in which they are settled.

        Changes of one document are applied in their order. One that fails, fails alone. It is not atomic. ``changes`` is read at most
        ``max_in_flight`` ahead of the results. What is at hand is sent together, and nothing waits for more. A stream that breaks is
        replaced; what was on its way is repeated with the same request ids. Close the iterator (``contextlib.aclosing``) if you leave it
        early.

        Args:
            changes: what to do.
            max_in_flight: most changes on their way.
            timeout: seconds without any answer after which it gives up.

        Raises:
            TopicPoliciesError: the service can't be reached any more; all that was on its way was yielded before, each with its error.
        """
        patience = seconds_of(timeout, self._timeout)
        pipeline = Pipeline(self._retries, self._line.routes, max_in_flight=max_in_flight, patience_seconds=patience, now=self._clock.now())
        return run_changes(self._line, pipeline, Source(changes))

    async def delete(self, topic: str, /, *, timeout: float | None = None, **options: Unpack[ChangeOptions]) -> DeleteResult:
        """Deletes one document. One that is not there is deleted already.

        Raises:
            Conflict: the document, or its absence, has another version than ``etag``.
            OutcomeUnknown: the deletion was sent, and its answer did not come, or says so.
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
        """Reads one document; an absent one is no error.

        Args:
            topic: its name.
            scope: in which clusters.
            at_least_version: a version of this document, as an update returned it, that the answer must have reached.
            as_of_time: reads the document as it was then, by the server's history. A time without a zone is local.
            as_of_version: reads the document that was this version, by the server's history.
            timeout: see the class.

        Raises:
            DeadlineExceeded: the version was not reached in time.
            OutOfRange: the history does not tell for certain; the metadata says why.
            FailedPrecondition: the server keeps no history.
        """
        request = get_request(topic, [scope], at_least_version=at_least_version, as_of_time=as_of_time, as_of_version=as_of_version)
        response, since = await self._call(lambda stub: stub.GetPolicy, request, timeout, namespace_of(request.topic))
        return Document.of(response.documents[0], since)

    async def get_both(self, topic: str, /, *, as_of_time: datetime | None = None, timeout: float | None = None) -> dict[Scope, Document]:
        """Reads the documents of both scopes at once, now or as they were; see ``get``."""
        request = get_request(topic, Scope, as_of_time=as_of_time)
        response, since = await self._call(lambda stub: stub.GetPolicy, request, timeout, namespace_of(request.topic))
        return {document.scope: document for document in known(response.documents, since)}

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
        """Reads what holds for a topic, out of its documents, its namespace's policies and the brokers' configuration.

        Args:
            topic: its name.
            view: whose reading.
            at_least_local_version: a version that the LOCAL document must have reached.
            at_least_global_version: a version that the GLOBAL document must have reached.
            timeout: see the class.

        Raises:
            NotFound: there is no such topic or namespace.
            FailedPrecondition: the server knows neither namespaces nor brokers.
        """
        request = effective_request(topic, view, at_least_local_version, at_least_global_version)
        answer = await self._call(lambda stub: stub.GetEffectivePolicy, request, timeout, namespace_of(request.topic))
        return EffectivePolicies.of(*answer)

    def list(self, namespace: str, /, *, scopes: Iterable[Scope] = (), page_size: int = 0, timeout: float | None = None) -> AsyncListing:
        """The documents of a namespace, ordered by topic and scope, page by page as they are asked for.

        Args:
            namespace: ``tenant/namespace``.
            scopes: which scopes; none: both.
            page_size: documents of one page; 0: as the service likes.
            timeout: for each page; see the class.
        """

        async def fetch(request: service_pb2.ListPoliciesRequest) -> Page:
            return await self._call(lambda stub: stub.ListPolicies, request, timeout, request.namespace)

        return AsyncListing(list_request(namespace, scopes, page_size), fetch)

    async def history(self, *, timeout: float | None = None, **options: Unpack[HistoryOptions]) -> AsyncIterator[HistoryEntry]:
        """What happened to the documents of a topic or a namespace, as the server recorded it, page by page as it is asked for.

        ``history_pages`` also tells where events may be missing.
        """
        async for page in self.history_pages(timeout=timeout, **options):
            for entry in page.entries:
                yield entry

    async def history_pages(self, *, timeout: float | None = None, **options: Unpack[HistoryOptions]) -> AsyncIterator[HistoryPage]:
        """The same in pages. ``timeout`` is for each."""
        request = history_request(**options)
        namespace = request.namespace or namespace_of(request.topic)
        while True:
            page = HistoryPage.of(*await self._call(lambda stub: stub.ListHistory, request, timeout, namespace))
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """What the server is that answers, and what its limits are."""
        message, _ = await self._call(lambda stub: stub.GetServerInfo, service_pb2.GetServerInfoRequest(), timeout, "")
        return ServerInfo.of(message)

    def watch(self, **options: Unpack[WatchOptions]) -> AsyncWatch:
        """Follows documents: per namespace a snapshot, ``Synced``, then changes. The watch outlives broken streams and resets.

        Raises:
            InvalidArgument: nothing was selected.
        """
        watch = AsyncWatch(self._line, WatchSession(policy=self._pauses, **options))
        self._watches.add(watch)
        return watch

    def cache(self, **selection: Unpack[Selection]) -> AsyncPolicyCache:
        """A local copy of documents that keeps itself current, with listeners; close it, or use it as a context.

        Raises:
            InvalidArgument: nothing was selected.
        """
        return AsyncPolicyCache(self.watch(**selection))

    async def _update(self, request: service_pb2.UpdatePolicyRequest, timeout: float | None) -> UpdateResult:
        change = None if request.validate_only else request.request_id
        response, _ = await self._call(lambda stub: stub.UpdatePolicy, request, timeout, namespace_of(request.topic), change)
        return UpdateResult.of(response)

    async def _edit(
        self,
        read: Callable[..., Awaitable[Document]],
        change: Change,
        send: Callable[..., Awaitable[UpdateResult]],
        timeout: float | None,
    ) -> UpdateResult:
        clock = self._clock
        runs = Runs(clock.now() + seconds_of(timeout, self._timeout))
        while True:
            document = await read(at_least_version=runs.at_least, timeout=runs.left(clock.now()))
            policies = copy_of(document)
            changing = change(policies)
            check_returned(await changing if isawaitable(changing) else changing, policies)
            try:
                return await send(document, policies, timeout=runs.left(clock.now()))
            except Conflict as conflict:
                pause = runs.late(conflict, clock.now(), clock.random())
            if await self._line.wait(pause):
                raise closed()

    async def _send_edit(
        self, document: Document, edited: TopicPolicies, *, timeout: float | None, actor: str, reason: str
    ) -> UpdateResult:
        request = edit_request(document, edited, actor=actor, reason=reason)
        return unchanged(document) if request is None else await self._update(request, timeout)

    async def _call(
        self,
        method: Callable[[TopicPoliciesServiceAsyncStub], Callable[..., aio.UnaryUnaryCall[Any, _Response]]],
        request: Any,
        timeout: float | None,
        namespace: str,
        change: str | None = None,
    ) -> tuple[_Response, datetime | None]:
        """One call with its repeats: the answer, and since when it can't be confirmed.

        ``change`` is the request id of a change; None is a read.
        """
        clock, routes = self._clock, self._line.routes
        attempts = Attempts(self._retries, clock.now() + seconds_of(timeout, self._timeout), change)
        while True:
            address = routes.to(namespace)
            try:
                call = method(self._line.stub(address))(request, timeout=limit_of(attempts.timeout(clock.now())))
                return await call, unconfirmed_since(await call.trailing_metadata())
            except aio.AioRpcError as error:
                failure = from_rpc_error(error)
            except TopicPoliciesError as error:
                raise attempts.unsent(error) from error.__cause__
            except asyncio.CancelledError:
                cut_off = self._line.cut_off()
                if cut_off is None:
                    raise
                if self._line.closed.is_set():
                    raise attempts.given_up(cut_off) from None
                failure = cut_off
            redirected = routes.failed(address, namespace, failure)
            if await self._line.wait(attempts.failed(failure, clock.now(), clock.random(), redirected=redirected)):
                raise attempts.given_up(failure)


class AsyncEdit:
    """A document being edited in an ``async with`` block; see ``AsyncClient.edit``."""

    def __init__(self, read: Callable[[], Awaitable[Document]], send: Callable[[Document, TopicPolicies], Awaitable[UpdateResult]]) -> None:
        self._read = read
        self._send = send
        self._document: Document | None = None
        self._policies = TopicPolicies()
        self.result: UpdateResult | None = None
        """What became of it; None as long as the block has not been left, or when it raised."""

    async def __aenter__(self) -> TopicPolicies:
        self._document = await self._read()
        self._policies = copy_of(self._document)
        return self._policies

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None and self._document is not None:
            self.result = await self._send(self._document, self._policies)
