"""The streams of the asyncio client: a watch, and many updates at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from grpc import aio

from .channels import Metadata
from .clocks import AsyncClock
from .errors import TopicPoliciesError, closed, from_rpc_error, stream_ended
from .events import WatchEvent
from .pipelining import Pipeline
from .requests import Update
from .results import Settled
from .routes import MOST_CONNECTIONS, Routes
from .tokens import ResumeToken
from .v1 import service_pb2
from .v1.service_pb2_grpc import TopicPoliciesServiceStub
from .watching import WatchSession

if TYPE_CHECKING:
    from .v1.service_pb2_grpc import (
        TopicPoliciesServiceAsyncStub,  # the stub's type on an asyncio channel; it exists for type checkers only
    )


class AsyncLine:
    """What calls are made with: a connection to each address that is in use, opened by the first call to it."""

    def __init__(self, connect: Callable[[str], aio.Channel], routes: Routes, metadata: Metadata, clock: AsyncClock) -> None:
        self.routes = routes
        self.metadata = metadata
        self.clock = clock
        self.closed = False
        self._connect = connect
        self._channels: dict[str, tuple[aio.Channel, TopicPoliciesServiceAsyncStub]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def stub(self, address: str) -> TopicPoliciesServiceAsyncStub:
        """The service's methods at an address.

        Raises:
            TopicPoliciesError: the client was closed.
        """
        if self.closed:
            raise closed()
        if address not in self._channels:
            self._make_room()
            channel = self._connect(address)
            self._channels[address] = (channel, TopicPoliciesServiceStub(channel))
        return self._channels[address][1]

    async def close(self) -> None:
        """Closes the connections."""
        await asyncio.gather(*(channel.close() for channel, _ in self._channels.values()), *self._leaving)

    def _make_room(self) -> None:
        others = [address for address in self._channels if address not in self.routes.addresses]
        if len(others) >= MOST_CONNECTIONS:
            task = asyncio.ensure_future(self._channels.pop(others[0])[0].close())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)


class AsyncWatch(AsyncIterator[WatchEvent]):
    """An open watch: an async iterator over what it tells, for one task. Waiting for its next event may be cancelled without harm."""

    def __init__(self, line: AsyncLine, session: WatchSession) -> None:
        self._line = line
        self._session = session
        self._told: deque[WatchEvent] = deque()
        self._call: Any = None
        self._address = ""
        self._pause = 0.0
        self._step: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    @property
    def token(self) -> ResumeToken:
        """Where to go on after everything that the iterator has given so far. Save it once you have dealt with that."""
        return self._session.token

    async def close(self) -> None:
        """Ends the watch; whoever waits for its next event gets StopAsyncIteration."""
        self._closed = True
        if self._call is not None:
            self._call.cancel()
        step, self._step = self._step, None
        await _stop(step)

    async def __anext__(self) -> WatchEvent:
        while not self._told and not self._closed:
            # A task of its own: cancelling whoever waits here must not cancel a read, with which gRPC would end the stream.
            step = self._step = self._step or asyncio.ensure_future(self._connect() if self._call is None else self._receive())
            await asyncio.wait({step})
            self._step = None
            if not step.cancelled():
                step.result()
        if self._closed:
            raise StopAsyncIteration
        return self._told.popleft()

    async def _connect(self) -> None:
        clock = self._line.clock
        await clock.sleep(self._pause)
        request, events = self._session.connect(clock.now())
        self._told.extend(events)
        self._address = self._line.routes.address
        self._call = self._line.stub(self._address).WatchPolicies(request, metadata=self._line.metadata)

    async def _receive(self) -> None:
        clock = self._line.clock
        try:
            response = await self._call.read()
        except aio.AioRpcError as error:
            self._broke(from_rpc_error(error))
        else:
            if response is aio.EOF:
                self._broke(stream_ended())
            else:
                self._told.extend(self._session.received(response, clock.now()))

    def _broke(self, error: TopicPoliciesError) -> None:
        self._call = None
        self._line.routes.failed(self._address, "", error)
        clock = self._line.clock
        try:
            interrupted = self._session.broke(error, clock.now(), clock.random())
        except TopicPoliciesError:
            self._closed = True
            raise
        self._pause = interrupted.retry_in_seconds
        self._told.append(interrupted)


async def run_updates(line: AsyncLine, pipeline: Pipeline, source: Source) -> AsyncIterator[Settled]:
    """See ``AsyncClient.update_many``."""
    run = _UpdateRun(line, pipeline, source)
    try:
        while run.waits_for():
            for settled in await run.step():
                yield settled
            if run.failure is not None:
                raise run.failure
    finally:
        await run.close()


class _UpdateRun:
    """One call of ``update_many``: gets updates and answers at the same time, whichever comes first."""

    def __init__(self, line: AsyncLine, pipeline: Pipeline, source: Source) -> None:
        self._line = line
        self._pipeline = pipeline
        self._source = source
        self._stream: _UpdateStream | None = None
        self.failure: TopicPoliciesError | None = None
        """Why there is no point in going on."""

    def waits_for(self) -> set[asyncio.Task[Any]]:
        """The tasks under way: for the next update, if there is room, and for the next answer, if one is due. None: all is done."""
        tasks: set[asyncio.Task[Any]] = set()
        if self._pipeline.has_room and (pulling := self._source.pull()) is not None:
            tasks.add(pulling)
        if self._stream is None and not self._pipeline.idle:
            self._stream = _UpdateStream(self._line, *self._pipeline.connect())
        if self._stream is not None and not self._pipeline.idle:
            if self._source.exhausted:
                self._stream.finish()
            tasks.add(self._stream.receive())
        return tasks

    async def step(self) -> list[Settled]:
        """Waits for something to happen; gives what was settled by it."""
        done, _ = await asyncio.wait(self.waits_for(), return_when=asyncio.FIRST_COMPLETED)
        settled = []
        if self._source.pulling in done:
            settled += self._pulled()
            await self._leave_if_done()
        if self._stream is not None and self._stream.receiving in done:
            settled += await self._received(self._stream)
        return settled

    def _pulled(self) -> list[Settled]:
        requests = [self._pipeline.add(update, self._line.clock.now()) for update in self._source.take()]
        for request in requests:
            if self._stream is not None and not isinstance(request, Settled) and self._pipeline.goes_here(request):
                self._stream.send(request)
        return [request for request in requests if isinstance(request, Settled)]

    async def _received(self, stream: _UpdateStream) -> list[Settled]:
        clock, pipeline = self._line.clock, self._pipeline
        try:
            settled = pipeline.settle(stream.take(), clock.now())
        except TopicPoliciesError as error:
            await stream.close()
            self._stream = None
            delay = pipeline.broke(error, clock.now(), clock.random())
            if delay is None:
                self.failure = error
                return pipeline.abandon(error)
            await clock.sleep(delay)
            return []
        await self._leave_if_done()
        return [] if settled is None else [settled]

    async def _leave_if_done(self) -> None:
        """What is left goes elsewhere: over another stream."""
        if self._stream is not None and self._pipeline.done_here:
            await self._stream.close()
            self._stream = None

    async def close(self) -> None:
        """Stops what is under way."""
        await self._source.close()
        if self._stream is not None:
            await self._stream.close()


class Source:
    """The updates that are still to come, from an iterable of either kind."""

    def __init__(self, updates: Iterable[Update] | AsyncIterable[Update]) -> None:
        self._updates = aiter(updates) if isinstance(updates, AsyncIterable) else _walk(updates)
        self.pulling: asyncio.Task[Update] | None = None
        self.exhausted = False

    def pull(self) -> asyncio.Task[Update] | None:
        """The task that gets the next one; None at the end."""
        if self.pulling is None and not self.exhausted:
            self.pulling = asyncio.ensure_future(self._next())
        return self.pulling

    def take(self) -> tuple[Update, ...]:
        """What the finished task got: one, or none at the end."""
        task, self.pulling = self.pulling, None
        assert task is not None
        try:
            return (task.result(),)
        except StopAsyncIteration:
            self.exhausted = True
            return ()

    async def close(self) -> None:
        """Stops pulling."""
        task, self.pulling = self.pulling, None
        await _stop(task)

    async def _next(self) -> Update:
        return await anext(self._updates)


async def _stop(task: asyncio.Task[Any] | None) -> None:
    """Cancels a task and waits for its end, however it ends."""
    if task is not None:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # looked at, so that nobody is told that nobody did


async def _walk(updates: Iterable[Update]) -> AsyncIterator[Update]:
    for update in updates:
        yield update


class _UpdateStream:
    """One UpdatePolicies stream. gRPC writes the requests in a task of its own, out of a queue that holds what was sent."""

    def __init__(self, line: AsyncLine, address: str, requests: Iterable[service_pb2.UpdatePoliciesRequest]) -> None:
        self._requests: asyncio.Queue[service_pb2.UpdatePoliciesRequest | None] = asyncio.Queue()
        for request in requests:
            self._requests.put_nowait(request)
        self._call: Any = line.stub(address).UpdatePolicies(self._sent(), metadata=line.metadata)
        self.receiving: asyncio.Task[service_pb2.UpdatePoliciesResponse] | None = None

    def send(self, request: service_pb2.UpdatePoliciesRequest) -> None:
        self._requests.put_nowait(request)

    def finish(self) -> None:
        """Nothing more will be sent: says so to the service."""
        self._requests.put_nowait(None)

    def receive(self) -> asyncio.Task[service_pb2.UpdatePoliciesResponse]:
        """The task that gets the next answer."""
        if self.receiving is None:
            self.receiving = asyncio.ensure_future(self._next())
        return self.receiving

    def take(self) -> service_pb2.UpdatePoliciesResponse:
        """What the finished task got; raises TopicPoliciesError when the stream has ended."""
        task, self.receiving = self.receiving, None
        assert task is not None
        return task.result()

    async def close(self) -> None:
        self.finish()
        self._call.cancel()
        await _stop(self.receiving)

    async def _next(self) -> service_pb2.UpdatePoliciesResponse:
        try:
            response = await self._call.read()
        except aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        if response is aio.EOF:
            raise stream_ended()
        answer: service_pb2.UpdatePoliciesResponse = response
        return answer

    async def _sent(self) -> AsyncIterator[service_pb2.UpdatePoliciesRequest]:
        while (request := await self._requests.get()) is not None:
            yield request
