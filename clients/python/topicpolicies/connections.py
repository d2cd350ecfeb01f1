"""The connections of a client, one to each address in use, and the calls over them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

import grpc
from grpc import aio

from .clocks import AsyncClock, Clock
from .errors import TopicPoliciesError, client_closed, connection_evicted, from_rpc_error, other_event_loop
from .routes import MOST_CONNECTIONS, Routes
from .stream_threads import StreamThreads
from .stubs import ChannelWithMetadata, Metadata
from .tasks import cancel_and_wait
from .v1.service_pb2_grpc import TopicPoliciesServiceStub

if TYPE_CHECKING:
    from .v1.service_pb2_grpc import (
        TopicPoliciesServiceAsyncStub,  # the stub's type on an asyncio channel; it exists for type checkers only
    )

_Response = TypeVar("_Response")


class Connections:
    """The connections of a ``Client``: one to each address in use, opened by the first call to it."""

    def __init__(self, connect: Callable[[str], grpc.Channel], routes: Routes, metadata: Callable[[], Metadata], clock: Clock) -> None:
        self.routes = routes
        self.clock = clock
        self.closed = threading.Event()
        """Set when the client is closed."""
        self._connect = connect
        self._metadata = metadata
        self._channels: dict[str, tuple[grpc.Channel, TopicPoliciesServiceStub]] = {}
        self._threads = StreamThreads()
        self._lock = threading.Lock()

    def stub(self, address: str) -> TopicPoliciesServiceStub:
        """Returns the stub for an address, whose calls carry the client's metadata.

        Raises:
            TopicPoliciesError: the client was closed.
        """
        with self._lock:
            if self.closed.is_set():
                raise client_closed()
            if address not in self._channels:
                self._evict_if_full()
                channel = self._connect(address)
                with_metadata = cast("grpc.Channel", ChannelWithMetadata(channel, self._metadata))
                self._channels[address] = (channel, TopicPoliciesServiceStub(with_metadata))
            return self._channels[address][1]

    def call(
        self, address: str, method: Callable[[TopicPoliciesServiceStub], Callable[..., _Response]], request: Any, **options: Any
    ) -> _Response:
        """Makes a unary call; see ``stream`` for streams.

        Raises:
            TopicPoliciesError: the client was closed; nothing was sent.
            grpc.RpcError: the call failed.
        """
        try:
            return method(self.stub(address))(request, **options)
        except ValueError as error:  # gRPC raises it for a call over a channel that was closed meanwhile
            if self.closed.is_set() and not isinstance(error, TopicPoliciesError):
                raise client_closed() from error
            raise

    def stream(
        self,
        address: str,
        method: Callable[[TopicPoliciesServiceStub], Callable[..., Any]],
        request: Any,
        over: Callable[[], object] = lambda: None,
    ) -> Any:
        """Begins a stream.

        Args:
            address: the address to call.
            method: takes the method from the stub.
            request: the request; or an iterator of several, which another thread reads.
            over: called when the stream has ended, by another thread; not called if the channel was given to the client.

        Raises:
            TopicPoliciesError: the client was closed.
        """
        if not self.routes.follows_leaders:  # the channel was given to the client: it stays open, so its threads are not waited for
            return self.call(address, method, request)
        if not isinstance(request, Iterator):
            call = self.call(address, method, request)
        else:
            requests = self._threads.sending(request)
            try:
                call = self.call(address, method, requests)
            except BaseException:
                self._threads.not_begun()
                raise
        self._threads.began(call)
        if not call.add_callback(over):
            over()
        return call

    def ended(self, error: grpc.RpcError) -> TopicPoliciesError:
        """Returns the exception for a call that failed: gRPC's error, or that of a closed client if closing it cancelled the call."""
        failure = from_rpc_error(error)
        return client_closed() if failure.code is grpc.StatusCode.CANCELLED and self.closed.is_set() else failure

    def close(self) -> None:
        """Closes the connections, and waits for the threads that serve their streams."""
        with self._lock:
            for channel, _ in self._channels.values():
                channel.close()
        self._threads.wait()

    def _evict_if_full(self) -> None:
        others = [address for address in self._channels if address not in self.routes.addresses]
        if len(others) >= MOST_CONNECTIONS:
            self._channels.pop(others[0])[0].close()

    def wait(self, seconds: float) -> None:
        """Waits for ``seconds``.

        Raises:
            TopicPoliciesError: the client was closed meanwhile.
        """
        if self.clock.wait(self.closed, seconds):
            raise client_closed()


class AsyncConnections:
    """The connections of an ``AsyncClient``: one to each address in use, opened by the first call to it."""

    def __init__(self, connect: Callable[[str], aio.Channel], routes: Routes, metadata: Callable[[], Metadata], clock: AsyncClock) -> None:
        self.routes = routes
        self.clock = clock
        self.closed = asyncio.Event()
        """Set when the client is closed."""
        self._connect = connect
        self._metadata = metadata
        self._channels: dict[str, tuple[aio.Channel, TopicPoliciesServiceAsyncStub]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the first call; None: there was none. gRPC's connections belong to it."""
        self._evicted: set[asyncio.Task[None]] = set()
        """The tasks that close the connections of ``_evict_if_full``."""

    def stub(self, address: str) -> TopicPoliciesServiceAsyncStub:
        """Returns the stub for an address, whose calls carry the client's metadata.

        Raises:
            TopicPoliciesError: the client was closed, or belongs to another event loop.
        """
        if self.closed.is_set():
            raise client_closed()
        self.check_loop()
        if address not in self._channels:
            self._evict_if_full()
            channel = self._connect(address)
            with_metadata = cast("aio.Channel", ChannelWithMetadata(channel, self._metadata))
            self._channels[address] = (channel, TopicPoliciesServiceStub(with_metadata))
        return self._channels[address][1]

    def check_loop(self) -> None:
        """Checks that the running event loop is that of the first call; without a running loop nothing is checked.

        Raises:
            FailedPrecondition: it is another one.
        """
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._loop = self._loop or running
        if self._loop is not running:
            raise other_event_loop()

    async def wait(self, seconds: float) -> bool:
        """Waits for ``seconds``, or until the client is closed. Returns whether the client is closed."""
        tasks = [asyncio.ensure_future(self.clock.sleep(seconds)), asyncio.ensure_future(self.closed.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                await cancel_and_wait(task)
        return self.closed.is_set()

    def cut_off(self) -> TopicPoliciesError | None:
        """Returns the error of a call that was cancelled because its connection was closed; None: the task that awaits it was cancelled."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            return None
        return client_closed() if self.closed.is_set() else connection_evicted()

    async def close(self) -> None:
        """Closes the connections."""
        await asyncio.gather(*(channel.close() for channel, _ in self._channels.values()), *self._evicted)

    def _evict_if_full(self) -> None:
        others = [address for address in self._channels if address not in self.routes.addresses]
        if len(others) >= MOST_CONNECTIONS:
            task = asyncio.ensure_future(self._channels.pop(others[0])[0].close())
            self._evicted.add(task)
            task.add_done_callback(self._evicted.discard)
