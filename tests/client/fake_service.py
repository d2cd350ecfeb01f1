"""A service in this process whose answers a test queues, and the two clients behind one face."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import grpc
from google.protobuf.message_factory import GetMessageClass

import topicpolicies as tp
from tests.client.statuses import Refusal
from topicpolicies.v1 import history_pb2, service_pb2

SERVICES = (
    service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"],
    history_pb2.DESCRIPTOR.services_by_name["PolicyHistoryService"],
)
BOTH = (tp.Client, tp.AsyncClient)


class Called(NamedTuple):
    """One call that the service received."""

    method: str
    request: Any
    metadata: dict[str, str | bytes]


class FakeService:
    """Answers each method's calls with what ``answers[method]`` has for it, in turn; without an answer a call hangs until its end.

    An answer is a message, a ``Refusal``, or a function of the request that returns one. That of a stream is a list: its messages, and how
    it ends; a stream without a Refusal at its end stays open.
    """

    def __init__(self) -> None:
        self.answers: defaultdict[str, deque[Any]] = defaultdict(deque)
        self.calls: list[Called] = []
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(16)
        self._server = grpc.server(self._pool)
        for service in SERVICES:
            handlers = {method.name: self._handler(method) for method in service.methods}
            self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service.full_name, handlers)])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._server.stop(0).wait()
        self._pool.shutdown()

    def requests(self, method: str) -> list[Any]:
        return [call.request for call in self.calls if call.method == method]

    def _handler(self, method: Any) -> grpc.RpcMethodHandler[Any, Any]:
        def one(request: Any, context: grpc.ServicerContext) -> Any:
            for answer in self._answers(method.name, request, context):
                return answer
            return None

        def several(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            yield from self._answers(method.name, request, context)

        kind = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        behavior: Any = several if method.server_streaming else one
        reads = GetMessageClass(method.input_type).FromString
        return kind(behavior, request_deserializer=reads, response_serializer=lambda message: message.SerializeToString())

    def _answers(self, method: str, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self.calls.append(Called(method, request, dict(context.invocation_metadata())))
        ended = threading.Event()
        context.add_callback(ended.set)
        answers = self.answers[method].popleft() if self.answers[method] else []
        for answer in answers if isinstance(answers, list) else [answers]:
            made = answer(request) if callable(answer) else answer
            if isinstance(made, Refusal):
                context.set_trailing_metadata(made.trailing_metadata)
                context.abort(made.code, made.message)
            yield made
        while not ended.wait(0.02) and not self._over.is_set():
            pass
        context.abort(grpc.StatusCode.UNAVAILABLE, "The test is over.")


async def use(kind: type[tp.Client | tp.AsyncClient], address: str, call: Callable[[Any], Any], **options: Any) -> Any:
    """Makes a call with a client of one of both kinds; the results of an iterator become a list."""
    if kind is tp.Client:

        def in_thread() -> Any:
            with tp.Client(address, **options) as client:
                made = call(client)
                return list(made) if isinstance(made, Iterator) else made

        return await asyncio.to_thread(in_thread)
    async with tp.AsyncClient(address, **options) as client:
        made = call(client)
        return [each async for each in made] if isinstance(made, AsyncIterator) else await made
