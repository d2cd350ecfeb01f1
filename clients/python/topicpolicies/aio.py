"""The asyncio client. What is sent, repeated and told is decided in the modules beside it; here is only the calling and waiting."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import datetime
from functools import partial
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, Unpack, overload
from weakref import WeakSet

import grpc
from grpc import aio

from .aio_streams import AsyncLine, AsyncWatch, Source, run_updates
from .caching import AsyncLiveCache
from .channels import DEFAULT_TARGET, Tls, addresses_of, credentials_for, metadata_for, options_for
from .clocks import AsyncClock, SystemClock
from .edits import EDIT_ATTEMPTS, EDIT_PAUSES, copy_of, edit_request, unchanged
from .errors import Conflict, from_rpc_error
from .fields import PolicyFields
from .history import HistoryPage, as_of_request, history_request
from .pipelining import Pipeline
from .requests import Mask, Options, Policies, Update, delete_request, list_request, update_request
from .results import Deletion, Document, EffectivePolicies, ListOperation, Scope, Settled, UpdateResult, WatchMode
from .retries import Attempts, RetryPolicy
from .routes import Routes
from .tokens import ResumeToken
from .v1 import service_pb2
from .v1.policies_pb2 import TopicPolicies
from .watching import WatchSession, namespace_of

if TYPE_CHECKING:
    from .v1.service_pb2_grpc import TopicPoliciesServiceAsyncStub

_Response = TypeVar("_Response")
Change: TypeAlias = Callable[[TopicPolicies], object] | Callable[[TopicPolicies], Awaitable[object]]
"""What edits a copy of a document; it may be a coroutine function."""


class AsyncClient:
    """Changes, reads and follows topic policies, from one event loop. Close it when it is no longer needed.

    Every call raises ``TopicPoliciesError`` or one of its kinds when it fails. What is safe to repeat is repeated until the
    call's time is over; see ``RetryPolicy``.
    """

    def __init__(  # noqa: PLR0913 - options, by keyword
        self,
        target: str = DEFAULT_TARGET,
        *,
        tls: bool | Tls | None = None,
        credentials: grpc.ChannelCredentials | None = None,
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
            actor: who asks for the changes; it is written into the log beside them.
            timeout: seconds that a call may take in all, its repeats included, where the call names no other.
            retries: how calls are repeated; ``NO_RETRIES`` for not at all.
            metadata: further metadata of every call.
            options: further channel options.
            channel: an open channel, instead of all that concerns the connection; it stays open when the client is closed, which goes
                nowhere else.
            clock: the time; for tests.

        Raises:
            InvalidArgument: the actor can't be sent.
        """
        addresses = addresses_of(target)
        trusted = (credentials or credentials_for(target, tls)) if channel is None else None
        chosen = options_for(tls, options)

        def connect(address: str) -> aio.Channel:
            if channel is not None:
                return channel
            if trusted is None:
                return aio.insecure_channel(address, options=chosen)
            return aio.secure_channel(address, trusted, options=chosen)

        self._timeout = timeout
        self._retries = retries or RetryPolicy()
        self._clock: AsyncClock = clock or SystemClock()
        routes = Routes(addresses if channel is None else (target,), follows=channel is None)
        self._line = AsyncLine(connect, routes, metadata_for(actor, metadata), self._clock)
        self._owns_channel = channel is None
        self._watches: WeakSet[AsyncWatch] = WeakSet()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all watches and calls, and the connection."""
        self._line.closed = True
        for watch in list(self._watches):
            await watch.close()
        if self._owns_channel:
            await self._line.close()

    async def update(  # noqa: PLR0913 - options, by keyword
        self,
        topic: str,
        policies: Policies | None = None,
        /,
        *,
        mask: Mask | None = None,
        scope: Scope = Scope.LOCAL,
        etag: str = "",
        skip_if_absent: bool = False,
        validate_only: bool = False,
        request_id: str = "",
        list_operations: Mapping[str, ListOperation] | None = None,
        timeout: float | None = None,
        **fields: Unpack[PolicyFields],
    ) -> UpdateResult:
        """Changes some fields of one document, and no others.

        ``await client.update(topic, max_producer_per_topic=5, message_ttl_in_seconds=None)`` sets one field and clears another. Paths below
        fields go into a mapping: ``await client.update(topic, {"retention_policies.retention_time_in_minutes": 10})``, and so do
        single entries of maps: ``{"subscription_policies.`my-sub`": None}``.

        Args:
            topic: its name, ``persistent://tenant/namespace/topic``.
            policies: new values: a mapping from paths to values, in which None clears, or a message, whose set fields count.
            mask: the paths to change, instead of those of the values; what is named here and has no value is cleared. ``*`` alone
                replaces the whole document.
            scope: in which clusters.
            etag: the version that the document must have; empty: any.
            skip_if_absent: do nothing when there is no document.
            validate_only: check everything and answer what would be, without writing.
            request_id: a UUID, to repeat an earlier request and learn what it did; empty: a new one is made.
            list_operations: what to do with list fields, by path; the others are replaced.
            timeout: seconds, all attempts included.
            fields: new values by field; None clears.

        Raises:
            InvalidArgument: the request is wrong; it lists all that is.
            Conflict: the document has another version than ``etag``.
            OutcomeUnknown: the change was sent and not answered in time.
        """
        options = Options(
            mask=mask,
            scope=scope,
            etag=etag,
            skip_if_absent=skip_if_absent,
            validate_only=validate_only,
            request_id=request_id,
            list_operations=list_operations,
        )
        return await self._update(update_request(topic, policies, fields, options), timeout)

    @overload
    def edit(
        self, topic: str, change: Change, /, *, scope: Scope = ..., timeout: float | None = ...
    ) -> Coroutine[Any, Any, UpdateResult]: ...

    @overload
    def edit(self, topic: str, /, *, scope: Scope = ..., timeout: float | None = ...) -> AsyncEdit: ...

    def edit(
        self,
        topic: str,
        change: Change | None = None,
        /,
        *,
        scope: Scope = Scope.LOCAL,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, UpdateResult] | AsyncEdit:
        """Changes a document by editing a copy of it; what differs afterwards is sent, and nothing if nothing does.

        The change holds only if nobody else changed the document meanwhile. With a function, which may be a coroutine function, that is no
        concern of yours: it is called again on a fresh copy, a bounded number of times, so it must do nothing but edit.
        ``await client.edit(topic, double_the_retention)``.

        Without a function it is a context: ``async with client.edit(topic) as policies: policies.max_producer_per_topic += 1``. A block
        can't be run again, and what it wrote may depend on all that it read: if somebody else was faster, leaving it raises ``Conflict``.
        A block that raises sends nothing.

        Raises:
            Conflict: the document was changed by somebody else, with a function: again and again.
        """
        if change is None:
            return AsyncEdit(partial(self.get, topic, scope=scope, timeout=timeout), partial(self._send_edit, timeout=timeout))
        return self._edit(topic, change, scope, timeout)

    async def get(self, topic: str, /, *, scope: Scope = Scope.LOCAL, at_least: str = "", timeout: float | None = None) -> Document:
        """Reads one document; an absent one is no error.

        Args:
            topic: its name.
            scope: in which clusters.
            at_least: a version of this document, as an update returned it, that the answer must have reached.
            timeout: seconds, all attempts included.
        """
        request = service_pb2.GetPolicyRequest(topic=topic, scope=scope.number, at_least=at_least)
        return Document.of(await self._call(lambda stub: stub.GetPolicy, request, timeout, namespace_of(topic)))

    async def effective(
        self, topic: str, /, *, applied: bool = False, scope: Scope = Scope.LOCAL, timeout: float | None = None
    ) -> EffectivePolicies:
        """Reads what holds for a topic, out of its documents, its namespace's policies and the brokers' configuration.

        Args:
            topic: its name.
            applied: what the brokers' admin API answers with ``applied=true``, instead of what they enforce.
            scope: whose document that looks at; without ``applied`` both count.
            timeout: seconds, all attempts included.

        Raises:
            NotFound: there is no such topic or namespace.
            FailedPrecondition: the server knows neither namespaces nor brokers.
        """
        view = service_pb2.POLICY_VIEW_APPLIED if applied else service_pb2.POLICY_VIEW_EFFECTIVE
        request = service_pb2.GetPolicyRequest(topic=topic, scope=scope.number, view=view)
        return EffectivePolicies.of(await self._call(lambda stub: stub.GetPolicy, request, timeout, namespace_of(topic)))

    async def get_as_of(
        self, topic: str, moment: datetime | str, /, *, scope: Scope = Scope.LOCAL, timeout: float | None = None
    ) -> Document:
        """Reads one document as it was, from the history of the server that answers.

        Args:
            topic: its name.
            moment: a time (without a zone it is local), or a version of this document.
            scope: in which clusters.
            timeout: seconds, all attempts included.

        Raises:
            OutOfRange: the history does not tell for certain; the metadata says why.
            FailedPrecondition: the server keeps no history.
        """
        request = as_of_request(topic, scope, moment)
        return Document.of(await self._call(lambda stub: stub.GetPolicy, request, timeout, namespace_of(topic)))

    async def history_pages(  # noqa: PLR0913 - options, by keyword
        self,
        *,
        topic: str = "",
        namespace: str = "",
        scopes: Iterable[Scope] = (),
        start: datetime | None = None,
        end: datetime | None = None,
        actor: str | None = None,
        oldest_first: bool = False,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[HistoryPage]:
        """What happened to the documents of a topic or a namespace, page by page, as the server that answers recorded it.

        Args:
            topic: a topic's name; either this or ``namespace``.
            namespace: ``tenant/namespace``.
            scopes: which scopes; none: both.
            start: only what happened then or later.
            end: only what happened before.
            actor: only events of this actor; empty: only those of which nobody said whose they are, such as brokers'; None: everybody's.
            oldest_first: in which order.
            page_size: entries of one page; 0: as the service likes.
            timeout: seconds for each page, all attempts included.
        """
        request = history_request(
            topic=topic,
            namespace=namespace,
            scopes=scopes,
            start=start,
            end=end,
            actor=actor,
            oldest_first=oldest_first,
            page_size=page_size,
        )
        while True:
            page = HistoryPage.of(await self._call(lambda stub: stub.ListHistory, request, timeout, namespace or namespace_of(topic)))
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def list(
        self, namespace: str, /, *, scopes: Iterable[Scope] = (), page_size: int = 0, timeout: float | None = None
    ) -> AsyncIterator[Document]:
        """The documents of a namespace, ordered by topic and scope, page by page as they are asked for.

        Args:
            namespace: ``tenant/namespace``.
            scopes: which scopes; none: both.
            page_size: documents of one page; 0: as the service likes.
            timeout: seconds for each page, all attempts included.
        """
        scopes = tuple(scopes)
        page_token = ""
        while True:
            request = list_request(namespace, scopes, page_size, page_token)
            page = await self._call(lambda stub: stub.ListPolicies, request, timeout, namespace)
            for entry in page.entries:
                yield Document.of(entry)
            page_token = page.next_page_token
            if not page_token:
                return

    async def delete(
        self,
        topic: str,
        /,
        *,
        scopes: Mapping[Scope, str] | Iterable[Scope] | Scope = Scope.LOCAL,
        request_id: str = "",
        timeout: float | None = None,
    ) -> Deletion:
        """Deletes documents of one topic, scope by scope: one may fail and the other succeed, so look at each result.

        Args:
            topic: its name.
            scopes: which scopes; a mapping gives each the etag that its document must have, empty for any.
            request_id: a UUID, to repeat an earlier request; empty: a new one is made.
            timeout: seconds, all attempts included.

        Raises:
            OutcomeUnknown: the deletion was sent and not answered in time.
        """
        request = delete_request(topic, scopes, request_id)
        return Deletion.of(await self._call(lambda stub: stub.DeletePolicy, request, timeout, namespace_of(topic), request.request_id))

    def update_many(
        self, updates: Iterable[Update] | AsyncIterable[Update], /, *, max_in_flight: int = 256, timeout: float | None = None
    ) -> AsyncIterator[Settled]:
        """Makes many updates over one stream, pipelined, and yields what became of each, in the order in which they are settled.

        Updates of one document are applied in their order. One that fails, fails alone. It is not atomic. ``updates`` is read at most
        ``max_in_flight`` ahead of the results. A stream that breaks is replaced; what was on its way is repeated with the same
        request ids. Close the iterator (``contextlib.aclosing``) if you leave it early.

        Args:
            updates: what to do.
            max_in_flight: most updates on their way.
            timeout: seconds without any answer after which it gives up.

        Raises:
            TopicPoliciesError: the service can't be reached any more; all that was on its way was yielded before, each with its error.
        """
        patience = self._timeout if timeout is None else timeout
        pipeline = Pipeline(self._retries, self._line.routes, max_in_flight=max_in_flight, patience_seconds=patience, now=self._clock.now())
        return run_updates(self._line, pipeline, Source(updates))

    def watch(
        self,
        *,
        topics: Iterable[str] = (),
        namespaces: Iterable[str] = (),
        scopes: Iterable[Scope] = (),
        mode: WatchMode = WatchMode.LATEST,
        token: ResumeToken | None = None,
        bookmark_interval: float | None = None,
        patience: float | None = None,
    ) -> AsyncWatch:
        """Follows documents: per namespace a snapshot, ``Synced``, then changes. The watch outlives broken streams and restarts.

        Args:
            topics: topics to watch; one without a document is said to have none.
            namespaces: namespaces of which all topics are watched, ``tenant/namespace``.
            scopes: which scopes; none: both.
            mode: what is owed when this client falls behind.
            token: where to go on, from an earlier watch's ``token``; None: with a snapshot.
            bookmark_interval: seconds between two bookmarks, at least 1; None: as the service likes.
            patience: seconds without any message after which a broken watch raises its error; None: it tries for ever.

        Raises:
            InvalidArgument: nothing was selected.
        """
        session = WatchSession(
            topics=topics,
            namespaces=namespaces,
            scopes=scopes,
            mode=mode,
            token=token,
            bookmark_interval_seconds=bookmark_interval,
            patience_seconds=patience,
            policy=self._retries,
        )
        watch = AsyncWatch(self._line, session)
        self._watches.add(watch)
        return watch

    def cache(
        self,
        *,
        topics: Iterable[str] = (),
        namespaces: Iterable[str] = (),
        scopes: Iterable[Scope] = (),
        bookmark_interval: float | None = None,
    ) -> AsyncLiveCache:
        """A local copy of documents that keeps itself current, with listeners; close it, or use it as a context.

        Args:
            topics: single topics.
            namespaces: namespaces of which all topics are kept, ``tenant/namespace``.
            scopes: which scopes; none: both.
            bookmark_interval: seconds between two confirmations that nothing has changed, at least 1; None: as the service likes.

        Raises:
            InvalidArgument: nothing was selected.
        """
        topics, namespaces = tuple(topics), tuple(namespaces)
        watch = self.watch(topics=topics, namespaces=namespaces, scopes=scopes, bookmark_interval=bookmark_interval)
        return AsyncLiveCache(watch, [*map(namespace_of, topics), *namespaces])

    async def _update(self, request: service_pb2.UpdatePolicyRequest, timeout: float | None) -> UpdateResult:
        change = None if request.validate_only else request.request_id
        return UpdateResult.of(await self._call(lambda stub: stub.UpdatePolicy, request, timeout, namespace_of(request.topic), change))

    async def _edit(self, topic: str, change: Change, scope: Scope, timeout: float | None) -> UpdateResult:
        at_least = ""
        for attempt in range(1, EDIT_ATTEMPTS + 1):
            document = await self.get(topic, scope=scope, at_least=at_least, timeout=timeout)
            policies = copy_of(document)
            changing = change(policies)
            if isawaitable(changing):
                await changing
            try:
                return await self._send_edit(document, policies, timeout)
            except Conflict as conflict:
                if attempt == EDIT_ATTEMPTS:
                    raise
                at_least = conflict.metadata.get("version", "")
            await self._clock.sleep(EDIT_PAUSES.delay(attempt, self._clock.random()))
        raise AssertionError("the last attempt returns or raises")

    async def _send_edit(self, document: Document, edited: TopicPolicies, timeout: float | None) -> UpdateResult:
        request = edit_request(document, edited)
        return unchanged(document) if request is None else await self._update(request, timeout)

    async def _call(
        self,
        method: Callable[[TopicPoliciesServiceAsyncStub], Callable[..., Awaitable[_Response]]],
        request: Any,
        timeout: float | None,
        namespace: str,
        change: str | None = None,
    ) -> _Response:
        """One call with its repeats. ``change``: the request id of a change; None is a read."""
        clock, routes = self._clock, self._line.routes
        attempts = Attempts(self._retries, clock.now() + (self._timeout if timeout is None else timeout), change)
        while True:
            address = routes.to(namespace)
            try:
                call = method(self._line.stub(address))
                return await call(request, timeout=attempts.timeout(clock.now()), metadata=self._line.metadata)
            except aio.AioRpcError as error:
                failure = from_rpc_error(error)
            redirected = routes.failed(address, namespace, failure)
            await clock.sleep(attempts.failed(failure, clock.now(), clock.random(), redirected=redirected))
            if self._line.closed:
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
