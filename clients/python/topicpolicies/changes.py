"""``Client.update_many``: the calling thread alternates between reading changes and reading results."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import grpc

from .connections import Connections
from .errors import TopicPoliciesError, client_closed, from_rpc_error, stream_ended
from .pipelining import Outbox, Pipeline
from .requests import Deletion, Update
from .results import Settled
from .stream_threads import too_late
from .timeouts import Watchdog
from .v1 import service_pb2


def run_changes(connections: Connections, pipeline: Pipeline, source: Iterator[Update | Deletion]) -> Iterator[Settled]:
    """See ``Client.update_many``."""
    run = _ChangeRun(connections, pipeline, source)
    try:
        while not run.done:
            yield from run.fill()
            yield from run.receive()
    finally:
        run.close()


class _ChangeRun:
    """One call of ``update_many``."""

    def __init__(self, connections: Connections, pipeline: Pipeline, source: Iterator[Update | Deletion]) -> None:
        self._connections = connections
        self._pipeline = pipeline
        self._source = source
        self._exhausted = False
        self._stream: _ChangeStream | None = None
        self._busy_since = connections.clock.now()
        """When the run last stopped waiting for results: until it waits again, the service's silence does not count."""

    @property
    def done(self) -> bool:
        """Whether all changes were read and settled."""
        return self._exhausted and self._pipeline.idle

    def fill(self) -> Iterator[Settled]:
        """Reads and sends as many changes as there is room for. Yields the results of those that can't be sent at all."""
        while not self._exhausted and self._pipeline.has_room and not self._connections.closed.is_set():
            try:
                change = next(self._source)
            except StopIteration:
                self._exhausted = True
                return
            request = self._pipeline.add(change, self._connections.clock.now())
            if isinstance(request, Settled):
                yield request
            elif self._stream is None:
                self._stream = _ChangeStream(self._connections, *self._pipeline.connect())
            elif self._pipeline.goes_here(request):
                self._stream.send(request)

    def receive(self) -> Iterator[Settled]:
        """Waits for the next results, or for the end of the stream, and yields the results.

        Raises:
            TopicPoliciesError: the run gives up; the results of all changes in flight were yielded before.
        """
        if self.done:
            return
        clock, pipeline = self._connections.clock, self._pipeline
        if self._connections.closed.is_set():
            yield from self._broke(client_closed())
        stream = self._open()
        pipeline.excuse(self._busy_since, clock.now())
        response, failure = stream.receive(pipeline.patience_left(clock.now()))
        self._busy_since = clock.now()
        if response is not None:
            yield from pipeline.settle(response, clock.now())
            failure = pipeline.stuck
        elif stream.silent:
            yield from self._broke(pipeline.silence(), final=True)
        if failure is not None:
            yield from self._broke(failure)

    def close(self) -> None:
        """Ends the open stream, if there is one."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _open(self) -> _ChangeStream:
        """Returns the stream for the next results, and opens it if need be."""
        if self._stream is not None and self._pipeline.done_here:  # the other changes go to another address, over another stream
            self.close()
        self._stream = self._stream or _ChangeStream(self._connections, *self._pipeline.connect())
        if self._exhausted:
            self._stream.finish()
        return self._stream

    def _broke(self, failure: TopicPoliciesError, *, final: bool = False) -> Iterator[Settled]:
        """Closes the stream after it failed, and pauses before the next one or gives up. ``final``: gives up in any case."""
        clock, pipeline = self._connections.clock, self._pipeline
        self.close()
        delay = pipeline.broke(failure, clock.now(), clock.random())
        over = delay is None or final
        if clock.wait(self._connections.closed, 0 if delay is None or over else delay):
            failure, over = client_closed(), True
        self._busy_since = clock.now()
        if over:
            yield from pipeline.abandon(failure)
            raise failure


class _ChangeStream:
    """One UpdatePolicies stream. A thread of gRPC sends: whenever it can, all changes that wait, as one batch."""

    def __init__(self, connections: Connections, address: str, changes: Iterable[service_pb2.PolicyChangeRequest]) -> None:
        self._outbox = Outbox(changes)
        self._filled = threading.Condition()
        self._watchdog = Watchdog(self._cancel)
        self._call: Any = None
        self._failure: TopicPoliciesError | None = None
        """Why the stream could not be opened; None: it was opened."""
        try:
            self._call = connections.stream(address, lambda stub: stub.UpdatePolicies, self._batches(), self.finish)
        except TopicPoliciesError as error:
            self._failure = error

    @property
    def silent(self) -> bool:
        """Whether the stream was cancelled because no results came for too long."""
        return self._watchdog.expired

    def send(self, change: service_pb2.PolicyChangeRequest) -> None:
        with self._filled:
            self._outbox.put(change)
            self._filled.notify()

    def finish(self) -> None:
        """Ends the requests of the stream once all changes that wait are sent; gRPC's thread ends then."""
        with self._filled:
            self._outbox.ended = True
            self._filled.notify()

    def receive(self, seconds: float) -> tuple[service_pb2.UpdatePoliciesResponse | None, TopicPoliciesError | None]:
        """Returns the next results, or the error with which the stream ended: also because no results came for ``seconds``."""
        if self._failure is not None:
            return None, self._failure
        self._watchdog.begin(seconds)
        try:
            return next(self._call), None
        except StopIteration:
            return None, stream_ended()
        except grpc.RpcError as error:
            return None, from_rpc_error(error)
        finally:
            self._watchdog.end()

    def close(self) -> None:
        if too_late():
            return
        self.finish()
        self._watchdog.close()
        self._cancel()

    def _cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()

    def _batches(self) -> Iterator[service_pb2.UpdatePoliciesRequest]:
        while True:
            with self._filled:
                self._filled.wait_for(lambda: self._outbox or self._outbox.ended)
                batch = self._outbox.take()
            if batch is None:
                return
            yield batch
