"""``AsyncClient.update_many``: waits for changes and for results at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from typing import Any

from grpc import aio

from .connections import AsyncConnections
from .errors import TopicPoliciesError, client_closed, from_rpc_error, stream_ended
from .pipelining import Outbox, Pipeline
from .requests import Deletion, Update
from .results import Settled
from .tasks import cancel_and_wait
from .timeouts import limit_of
from .v1 import service_pb2

AT_ONCE = 100
"""How many changes are taken from an iterable in one turn of the event loop at most, so that other tasks get their turn."""


async def run_changes(connections: AsyncConnections, pipeline: Pipeline, source: Source) -> AsyncGenerator[Settled, None]:
    """See ``AsyncClient.update_many``."""
    connections.check_loop()
    run = _ChangeRun(connections, pipeline, source)
    try:
        while not run.done:
            for settled in await run.step():
                yield settled
            if run.failure is not None:
                raise run.failure
    finally:
        await run.close()


class _ChangeRun:
    """One call of ``update_many``: handles changes and results as they come, whichever comes first."""

    def __init__(self, connections: AsyncConnections, pipeline: Pipeline, source: Source) -> None:
        self._connections = connections
        self._pipeline = pipeline
        self._source = source
        self._stream: _ChangeStream | None = None
        self._closing: asyncio.Task[Any] | None = None
        """The task that waits until the client is closed."""
        self._busy_since = connections.clock.now()
        """When the run last stopped waiting for results: until it waits again, the service's silence does not count."""
        self.failure: TopicPoliciesError | None = None
        """Why the run gives up; None: it goes on."""

    @property
    def done(self) -> bool:
        """Whether all changes were read and settled."""
        return self._source.exhausted and self._pipeline.idle

    async def step(self) -> list[Settled]:
        """Takes the changes that are at hand, or waits for a change or for results. Returns the results of the changes that are settled."""
        if self._connections.closed.is_set():
            return await self._broke(client_closed())
        settled = self._take_at_hand()
        if settled or (self._pipeline.has_room and self._source.at_hand):
            await asyncio.sleep(0)
            return settled
        waiting = await self._under_way()
        if not waiting:
            return []
        done = await self._something_of(waiting)
        silent = not self._pipeline.idle and self._receiving not in done and self._patience_left <= 0
        if self._stream is not None and self._receiving in done:
            settled += await self._received(self._stream)
        if self._source.pulling in done:
            settled += [refused for change in self._source.take() if (refused := self._add(change)) is not None]
        if silent or not done:
            settled += await self._broke(self._pipeline.silence(), final=True)
        return settled

    @property
    def _receiving(self) -> asyncio.Task[Any] | None:
        return None if self._stream is None else self._stream.receiving

    @property
    def _patience_left(self) -> float:
        return self._pipeline.patience_left(self._connections.clock.now())

    async def _something_of(self, tasks: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
        """Waits until one of these tasks is done or the client is closed. Returns what is done: nothing, if patience is over first."""
        self._closing = self._closing or asyncio.ensure_future(self._connections.closed.wait())
        self._pipeline.excuse(self._busy_since, self._connections.clock.now())
        limit = None if self._pipeline.idle else limit_of(self._patience_left)
        done, _ = await asyncio.wait({*tasks, self._closing}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        self._busy_since = self._connections.clock.now()
        return done

    def _take_at_hand(self) -> list[Settled]:
        settled = []
        for _ in range(AT_ONCE):
            if not self._pipeline.has_room or not self._source.at_hand:
                break
            settled += [refused for change in self._source.next_at_hand() if (refused := self._add(change)) is not None]
        return settled

    def _add(self, change: Update | Deletion) -> Settled | None:
        """Adds a change, and sends it if it goes over the open stream. Returns its result if it can't be sent at all."""
        request = self._pipeline.add(change, self._connections.clock.now())
        if isinstance(request, Settled):
            return request
        if self._stream is None:
            self._stream = _ChangeStream(self._connections, *self._pipeline.connect())
        elif self._pipeline.goes_here(request):
            self._stream.send(request)
        return None

    async def _under_way(self) -> set[asyncio.Task[Any]]:
        """Returns the tasks to wait for: for the next change, if there is room, and for the next results, if any are due."""
        tasks: set[asyncio.Task[Any]] = set()
        if self._pipeline.has_room and (pulling := self._source.pull()) is not None:
            tasks.add(pulling)
        if self._pipeline.idle:
            return tasks
        if self._stream is not None and self._pipeline.done_here:  # the other changes go to another address, over another stream
            await self._stream.close()
            self._stream = None
        if self._stream is None:
            self._stream = _ChangeStream(self._connections, *self._pipeline.connect())
        if self._source.exhausted:
            self._stream.finish()
        return {*tasks, self._stream.receive()}

    async def _received(self, stream: _ChangeStream) -> list[Settled]:
        response, failure = stream.take()
        settled = []
        if response is not None:
            settled = self._pipeline.settle(response, self._connections.clock.now())
            failure = self._pipeline.stuck
        return settled if failure is None else settled + await self._broke(failure)

    async def _broke(self, failure: TopicPoliciesError, *, final: bool = False) -> list[Settled]:
        """Closes the stream after it failed, and pauses before the next one or gives up. ``final``: gives up in any case.

        Returns:
            The results of all changes in flight, if the run gives up.
        """
        clock, pipeline = self._connections.clock, self._pipeline
        if self._stream is not None:
            await self._stream.close()
            self._stream = None
        delay = pipeline.broke(failure, clock.now(), clock.random())
        over = delay is None or final
        if await self._connections.wait(0 if delay is None or over else delay):
            failure, over = client_closed(), True
        self._busy_since = clock.now()
        if not over:
            return []
        self.failure = failure
        return pipeline.abandon(failure)

    async def close(self) -> None:
        """Ends the stream and the tasks."""
        await self._source.close()
        await cancel_and_wait(self._closing)
        if self._stream is not None:
            await self._stream.close()


class Source:
    """The caller's changes that were not read yet: those of an iterable are at hand, those of an async iterable are waited for."""

    def __init__(self, changes: Iterable[Update | Deletion] | AsyncIterable[Update | Deletion]) -> None:
        self._async = aiter(changes) if isinstance(changes, AsyncIterable) else None
        self._plain = None if isinstance(changes, AsyncIterable) else iter(changes)
        self.pulling: asyncio.Task[Update | Deletion] | None = None
        """The task that gets the next change; None: there is none."""
        self.exhausted = False
        """Whether all changes were read."""

    @property
    def at_hand(self) -> bool:
        """Whether the next change, or the end, can be read without waiting."""
        return self._plain is not None and not self.exhausted

    def next_at_hand(self) -> tuple[Update | Deletion, ...]:
        """Returns the next change of an iterable; an empty tuple at its end."""
        assert self._plain is not None
        try:
            return (next(self._plain),)
        except StopIteration:
            self.exhausted = True
            return ()

    def pull(self) -> asyncio.Task[Update | Deletion] | None:
        """Returns the task that gets the next change of an async iterable; None at its end, or if the changes are at hand."""
        if self.pulling is None and self._async is not None and not self.exhausted:
            self.pulling = asyncio.ensure_future(self._next(self._async))
        return self.pulling

    def take(self) -> tuple[Update | Deletion, ...]:
        """Returns the change that the finished task got; an empty tuple at the end."""
        task, self.pulling = self.pulling, None
        assert task is not None
        try:
            return (task.result(),)
        except StopAsyncIteration:
            self.exhausted = True
            return ()

    async def close(self) -> None:
        """Cancels the task."""
        task, self.pulling = self.pulling, None
        await cancel_and_wait(task)

    async def _next(self, changes: AsyncIterator[Update | Deletion]) -> Update | Deletion:
        return await anext(changes)


class _ChangeStream:
    """One UpdatePolicies stream. A task of gRPC sends: whenever it can, all changes that wait, as one batch."""

    def __init__(self, connections: AsyncConnections, address: str, changes: Iterable[service_pb2.PolicyChangeRequest]) -> None:
        self._outbox = Outbox(changes)
        self._filled = asyncio.Event()
        self._connections = connections
        self._call: Any = None
        self._failure: TopicPoliciesError | None = None
        """Why the stream could not be opened; None: it was opened."""
        try:
            self._call = connections.stub(address).UpdatePolicies(self._batches())
        except TopicPoliciesError as error:
            self._failure = error
        self.receiving: asyncio.Task[service_pb2.UpdatePoliciesResponse] | None = None

    def send(self, change: service_pb2.PolicyChangeRequest) -> None:
        self._outbox.put(change)
        self._filled.set()

    def finish(self) -> None:
        """Ends the requests of the stream once all changes that wait are sent."""
        self._outbox.ended = True
        self._filled.set()

    def receive(self) -> asyncio.Task[service_pb2.UpdatePoliciesResponse]:
        """Returns the task that gets the next results."""
        if self.receiving is None:
            self.receiving = asyncio.ensure_future(self._next())
        return self.receiving

    def take(self) -> tuple[service_pb2.UpdatePoliciesResponse | None, TopicPoliciesError | None]:
        """Returns what the finished task got: results, or the error with which the stream ended."""
        task, self.receiving = self.receiving, None
        assert task is not None
        try:
            return task.result(), None
        except TopicPoliciesError as error:
            return None, error

    async def close(self) -> None:
        self.finish()
        if self._call is not None:
            self._call.cancel()
        await cancel_and_wait(self.receiving)

    async def _next(self) -> service_pb2.UpdatePoliciesResponse:
        if self._failure is not None:
            raise self._failure
        try:
            response = await self._call.read()
        except aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        except asyncio.CancelledError:
            cut_off = self._connections.cut_off()
            if cut_off is None:
                raise
            raise cut_off from None
        if response is aio.EOF:
            raise stream_ended()
        answer: service_pb2.UpdatePoliciesResponse = response
        return answer

    async def _batches(self) -> AsyncIterator[service_pb2.UpdatePoliciesRequest]:
        while True:
            while (batch := self._outbox.take()) is not None:
                yield batch
            if self._outbox.ended:
                return
            self._filled.clear()
            await self._filled.wait()
