"""The open watches of both clients: iterators over the events of a ``WatchSession``, which they feed from WatchPolicies streams."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import grpc
from grpc import aio

from .connections import AsyncConnections, Connections
from .errors import DeadlineExceeded, TopicPoliciesError, from_rpc_error, not_begun, stream_ended
from .events import WatchEvent
from .stream_threads import too_late
from .tasks import cancel_and_wait
from .timeouts import Watchdog, limit_of
from .tokens import ResumeToken
from .watch_session import WatchSession

_AnyConnections = TypeVar("_AnyConnections", bound=Connections | AsyncConnections)


class _BaseWatch(Generic[_AnyConnections]):
    """The common part of ``Watch`` and ``AsyncWatch``."""

    _closed: threading.Event | asyncio.Event

    def __init__(self, connections: _AnyConnections, session: WatchSession) -> None:
        self._connections = connections
        self._session = session
        self._call: Any = None
        """The open stream; None: there is none."""
        self._address = ""
        """The address of the stream."""
        self._pause = 0.0
        """Seconds to wait before the next stream is opened."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(self.namespaces)}{', closed' if self._closed.is_set() else ''}>"

    @property
    def token(self) -> ResumeToken:
        """The place behind all events that the iterator has yielded. Save it after you have processed them, to continue from there."""
        return self._session.token

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that are watched, and those of watched topics."""
        return self._session.namespaces

    def _over(self, error: TopicPoliciesError | None) -> None:
        """Handles the end of the stream; ``error``: None if the service ended it in order.

        Raises:
            TopicPoliciesError: the watch gives up.
        """
        self._call = None
        now, chance = self._connections.clock.now(), self._connections.clock.random()
        try:
            pause = self._session.ended(now, chance) if error is None else self._session.broke(error, now, chance)
        except TopicPoliciesError:
            self._closed.set()
            raise
        if pause is None:
            self._closed.set()
            return
        self._pause = pause
        self._connections.routes.failed(self._address, "", error or stream_ended())


class Watch(_BaseWatch[Connections], Iterator[WatchEvent]):
    """An open watch: an iterator over its events; see ``Client.watch``. One thread may iterate; any thread may call ``close``."""

    _closed: threading.Event

    def __init__(self, connections: Connections, session: WatchSession) -> None:
        super().__init__(connections, session)
        self._closed = threading.Event()
        watch = weakref.ref(self)
        self._watchdog = Watchdog(lambda: _cancel_stream(watch()))
        weakref.finalize(self, self._watchdog.close).atexit = False  # its thread does not keep the process from ending

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the watch; a thread that waits for its next event gets StopIteration."""
        if too_late():
            return
        self._closed.set()
        self._watchdog.close()
        if self._call is not None:
            self._call.cancel()

    def __next__(self) -> WatchEvent:
        while not self._closed.is_set():
            event = self._session.next()
            if event is not None:
                return event
            if self._call is None:
                self._connect()
            else:
                self._receive()
        raise StopIteration

    def batch(self) -> list[WatchEvent]:
        """Waits for the next event, and returns all events that are at hand then; an empty list: the watch has ended."""
        first = next(self, None)
        return [] if first is None else [first, *self._session.rest()]

    def _connect(self) -> None:
        if self._connections.clock.wait(self._closed, self._pause):
            return
        request = self._session.connect(self._connections.clock.now())
        self._address = self._connections.routes.address
        try:
            self._call = self._connections.stream(self._address, lambda stub: stub.WatchPolicies, request)
        except Exception as error:
            if not isinstance(error, TopicPoliciesError) or not self._connections.closed.is_set():
                self._over(not_begun(error))  # whatever the caller's token function raises: it may succeed the next time
                return
            if self._closed.is_set():
                return
            self._closed.set()
            raise
        if self._closed.is_set():  # another thread closed the watch when there was no call yet to cancel
            self._call.cancel()

    def _receive(self) -> None:
        self._watchdog.begin(self._session.patience)
        try:
            response = next(self._call)
        except StopIteration:
            self._over(None)
        except grpc.RpcError as error:
            if not self._closed.is_set():
                self._over(_silent() if self._watchdog.expired else from_rpc_error(error))
        else:
            self._watchdog.end()
            self._session.received(response, self._connections.clock.now())


class AsyncWatch(_BaseWatch[AsyncConnections], AsyncIterator[WatchEvent]):
    """An open watch: an async iterator over its events, for one task; see ``AsyncClient.watch``.

    A task that waits for the next event may be cancelled: no event is lost, and the watch goes on. A watch that nobody refers to any more
    ends.
    """

    _closed: asyncio.Event

    def __init__(self, connections: AsyncConnections, session: WatchSession) -> None:
        super().__init__(connections, session)
        self._closed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of the task that iterates; None: none has begun."""
        self._step: asyncio.Task[Any] | None = None
        """The task that waits before the next stream is opened, or reads the next message. It does not refer to the watch."""

    def __del__(self) -> None:
        step, call = self._step, self._call
        if self._loop is None or self._loop.is_closed():
            return
        if step is not None and not step.done():
            self._loop.call_soon_threadsafe(step.cancel)  # which ends the stream
            return
        if call is not None:  # gRPC's tasks refer to it, so it does not end by itself
            self._loop.call_soon_threadsafe(call.cancel)
        if step is not None and not step.cancelled():
            step.exception()  # retrieved, or else asyncio logs that it never was

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the watch; a task that waits for its next event gets StopAsyncIteration."""
        self._closed.set()
        if self._loop is not None and self._loop.is_closed():
            return  # the stream and the task ended with their loop
        if self._call is not None:
            self._call.cancel()
        step, self._step = self._step, None
        await cancel_and_wait(step)

    async def __anext__(self) -> WatchEvent:
        if not self._closed.is_set():
            self._connections.check_loop()
        self._loop = self._loop or asyncio.get_running_loop()
        while not self._closed.is_set():
            event = self._session.next()
            if event is not None:
                return event
            # A separate task: cancelling the caller must not cancel the read, because gRPC would end the stream with it.
            step = self._step = self._step or asyncio.ensure_future(self._begun())
            waits = self._call is not None
            done, _ = await asyncio.wait({step}, timeout=limit_of(self._session.patience) if waits else None)
            self._step = None
            if not done:
                self._give_up(step)
                continue
            if step.cancelled() or self._closed.is_set():
                continue
            if self._call is None:
                self._connect()
            else:
                self._receive(step)
        raise StopAsyncIteration

    async def batch(self) -> list[WatchEvent]:
        """Waits for the next event, and returns all events that are at hand then; an empty list: the watch has ended."""
        first = await anext(self, None)
        return [] if first is None else [first, *self._session.rest()]

    def _begun(self) -> Coroutine[Any, Any, Any]:
        """Returns what to wait for next: the end of the pause, or a message."""
        if self._call is None:
            return self._connections.clock.sleep(self._pause)
        message: Coroutine[Any, Any, Any] = self._call.read()
        return message

    def _connect(self) -> None:
        request = self._session.connect(self._connections.clock.now())
        self._address = self._connections.routes.address
        try:
            stub = self._connections.stub(self._address)
        except TopicPoliciesError:
            self._closed.set()
            raise
        try:
            self._call = stub.WatchPolicies(request)
        except Exception as error:  # noqa: BLE001 - see Watch
            self._over(not_begun(error))

    def _give_up(self, read: asyncio.Task[Any]) -> None:
        """Ends a stream that was silent for too long."""
        self._call.cancel()
        read.cancel()
        read.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # retrieved, or else asyncio logs that it never was
        self._over(_silent())

    def _receive(self, read: asyncio.Task[Any]) -> None:
        """Takes what the finished task has read."""
        try:
            response = read.result()
        except aio.AioRpcError as error:
            self._over(from_rpc_error(error))
        else:
            if response is aio.EOF:
                self._over(None)
            else:
                self._session.received(response, self._connections.clock.now())


def _silent() -> DeadlineExceeded:
    return DeadlineExceeded("The service was silent for too long.", code=grpc.StatusCode.DEADLINE_EXCEEDED)


def _cancel_stream(watch: Watch | None) -> None:
    call = watch._call if watch is not None else None  # noqa: SLF001 (a watch's own)
    if call is not None:
        call.cancel()
