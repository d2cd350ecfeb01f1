"""The streams of the synchronous client: a watch, and many updates at once."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self

import grpc

from .channels import Metadata
from .clocks import Clock
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


class Line:
    """What calls are made with: a connection to each address that is in use, opened by the first call to it."""

    def __init__(self, connect: Callable[[str], grpc.Channel], routes: Routes, metadata: Metadata, clock: Clock) -> None:
        self.routes = routes
        self.metadata = metadata
        self.clock = clock
        self.closed = threading.Event()
        """Whether the client was closed."""
        self._connect = connect
        self._channels: dict[str, tuple[grpc.Channel, TopicPoliciesServiceStub]] = {}
        self._lock = threading.Lock()

    def stub(self, address: str) -> TopicPoliciesServiceStub:
        """The service's methods at an address."""
        with self._lock:
            if address not in self._channels:
                self._make_room()
                channel = self._connect(address)
                self._channels[address] = (channel, TopicPoliciesServiceStub(channel))
            return self._channels[address][1]

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            for channel, _ in self._channels.values():
                channel.close()

    def _make_room(self) -> None:
        others = [address for address in self._channels if address not in self.routes.addresses]
        if len(others) >= MOST_CONNECTIONS:
            self._channels.pop(others[0])[0].close()

    def wait(self, seconds: float) -> None:
        """Waits.

        Raises:
            TopicPoliciesError: the client was closed.
        """
        if self.clock.wait(self.closed, seconds):
            raise closed()


class Watch(Iterator[WatchEvent]):
    """An open watch: an iterator over what it tells. It is for one thread; ``close`` may be called from any."""

    def __init__(self, line: Line, session: WatchSession) -> None:
        self._line = line
        self._session = session
        self._told: deque[WatchEvent] = deque()
        self._call: Any = None  # grpc's stream: a call and an iterator at once
        self._address = ""
        self._pause = 0.0
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def token(self) -> ResumeToken:
        """Where to go on after everything that the iterator has given so far. Save it once you have dealt with that."""
        return self._session.token

    def close(self) -> None:
        """Ends the watch; whoever waits for its next event gets StopIteration."""
        self._closed.set()
        if self._call is not None:
            self._call.cancel()

    def __next__(self) -> WatchEvent:
        while not self._told and not self._closed.is_set():
            if self._call is None:
                self._connect()
            else:
                self._receive()
        if self._closed.is_set():
            raise StopIteration
        return self._told.popleft()

    def _connect(self) -> None:
        if self._line.clock.wait(self._closed, self._pause):
            return
        request, events = self._session.connect(self._line.clock.now())
        self._told.extend(events)
        self._address = self._line.routes.address
        self._call = self._line.stub(self._address).WatchPolicies(request, metadata=self._line.metadata)
        if self._closed.is_set():  # by another thread, which saw no call to cancel
            self._call.cancel()

    def _receive(self) -> None:
        try:
            response = next(self._call)
        except StopIteration:
            self._broke(stream_ended())
        except grpc.RpcError as error:
            if not self._closed.is_set():
                self._broke(from_rpc_error(error))
        else:
            self._told.extend(self._session.received(response, self._line.clock.now()))

    def _broke(self, error: TopicPoliciesError) -> None:
        self._call = None
        self._line.routes.failed(self._address, "", error)
        try:
            interrupted = self._session.broke(error, self._line.clock.now(), self._line.clock.random())
        except TopicPoliciesError:
            self._closed.set()
            raise
        self._pause = interrupted.retry_in_seconds
        self._told.append(interrupted)


def run_updates(line: Line, pipeline: Pipeline, source: Iterator[Update]) -> Iterator[Settled]:
    """See ``Client.update_many``."""
    clock = line.clock
    exhausted = False
    stream: _UpdateStream | None = None
    try:
        while True:
            while not exhausted and pipeline.has_room:
                update = next(source, None)
                if update is None:
                    exhausted = True
                    break
                request = pipeline.add(update, clock.now())
                if isinstance(request, Settled):
                    yield request
                elif stream is not None and pipeline.goes_here(request):
                    stream.send(request)
            if pipeline.idle:
                return
            if stream is not None and pipeline.done_here:
                stream.close()
                stream = None
            stream = stream or _UpdateStream(line, *pipeline.connect())
            if exhausted:
                stream.finish()
            try:
                settled = pipeline.settle(stream.receive(), clock.now())
            except TopicPoliciesError as error:
                stream.close()
                stream = None
                delay = pipeline.broke(error, clock.now(), clock.random())
                if delay is None:
                    yield from pipeline.abandon(error)
                    raise
                line.wait(delay)
            else:
                if settled is not None:
                    yield settled
    finally:
        if stream is not None:
            stream.close()


class _UpdateStream:
    """One UpdatePolicies stream. gRPC reads the requests in a thread of its own, out of a queue that holds what was sent."""

    def __init__(self, line: Line, address: str, requests: Iterable[service_pb2.UpdatePoliciesRequest]) -> None:
        self._requests: queue.SimpleQueue[service_pb2.UpdatePoliciesRequest | None] = queue.SimpleQueue()
        for request in requests:
            self._requests.put(request)
        self._call: Any = line.stub(address).UpdatePolicies(iter(self._requests.get, None), metadata=line.metadata)

    def send(self, request: service_pb2.UpdatePoliciesRequest) -> None:
        self._requests.put(request)

    def finish(self) -> None:
        """Nothing more will be sent: says so to the service, and lets gRPC's thread go."""
        self._requests.put(None)

    def receive(self) -> service_pb2.UpdatePoliciesResponse:
        """The next answer; raises TopicPoliciesError when the stream has ended."""
        try:
            response: service_pb2.UpdatePoliciesResponse = next(self._call)
        except StopIteration:
            raise stream_ended() from None
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        return response

    def close(self) -> None:
        self.finish()
        self._call.cancel()
