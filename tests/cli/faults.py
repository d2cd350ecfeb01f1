"""A proxy in front of a real server, which breaks calls on request."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import grpc

from tests.client.statuses import BROKEN, Refusal
from topicpolicies.v1 import history_pb2, service_pb2

_SERVICES = (
    service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"],
    history_pb2.DESCRIPTOR.services_by_name["PolicyHistoryService"],
)


class Fault(NamedTuple):
    """A fault of one call."""

    refusal: Refusal = BROKEN
    """The status that the call ends with."""
    after: int = 0
    """Of a unary call: 1 if the call is made and its response is lost. Of a stream: how many responses are forwarded before the fault."""


class Proxy(grpc.GenericRpcHandler):
    """Forwards every call; while ``faults`` is not empty, the next call gets the first of them."""

    def __init__(self) -> None:
        self.faults: deque[Fault] = deque()
        """The faults of the next calls, in order."""
        self.met: Counter[str] = Counter()
        """How many faults happened, by the name of the call."""
        self.calls: Counter[str] = Counter()
        """How many calls came, by their name."""
        self.unconfirmed_since = ""
        """The value of ``topicpolicies-unconfirmed-since`` in the trailing metadata of unary responses; empty: there is none."""
        self._channel: Any = None

    @asynccontextmanager
    async def serving(self, target: str) -> AsyncIterator[str]:
        """Forwards calls to the server at ``target``; yields the proxy's own address."""
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((self,))
        port = server.add_insecure_port("127.0.0.1:0")
        async with grpc.aio.insecure_channel(target) as self._channel:
            await server.start()
            try:
                yield f"127.0.0.1:{port}"
            finally:
                await server.stop(None)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """Returns the handler of a call, which forwards messages as bytes."""
        path: str = details.method
        service, name = path[1:].split("/")
        method = next((each.methods_by_name.get(name) for each in _SERVICES if each.full_name == service), None)
        if method is None:
            return None
        if method.server_streaming:

            async def pass_watch(request: bytes, context: Any) -> AsyncIterator[bytes]:
                async for message in self._stream(name, self._channel.unary_stream(path)(request, metadata=_metadata(context)), context):
                    yield message

            return grpc.unary_stream_rpc_method_handler(pass_watch)

        async def pass_call(request: bytes, context: Any) -> bytes:
            fault = self._fault(name)
            if fault is not None and not fault.after:
                await self._break(name, fault, context)
            try:
                answer: bytes = await self._channel.unary_unary(path)(request, metadata=_metadata(context))
            except grpc.aio.AioRpcError as error:
                await _pass_on(error, context)
                raise
            if fault is not None:
                await self._break(name, fault, context)
            if self.unconfirmed_since:
                context.set_trailing_metadata((("topicpolicies-unconfirmed-since", self.unconfirmed_since),))
            return answer

        return grpc.unary_unary_rpc_method_handler(pass_call)

    def _fault(self, name: str) -> Fault | None:
        self.calls[name] += 1
        return self.faults.popleft() if self.faults and name != "GetServerInfo" else None  # which only looks whether there is a server

    async def _stream(self, name: str, call: Any, context: Any) -> AsyncIterator[bytes]:
        fault = self._fault(name)
        passed = 0
        try:
            async for message in call:
                for each in _single(name, message):
                    if fault is not None and passed == fault.after:
                        await self._break(name, fault, context)
                    passed += 1
                    yield each
        except grpc.aio.AioRpcError as error:
            await _pass_on(error, context)
        except asyncio.CancelledError:
            call.cancel()
            raise

    async def _break(self, name: str, fault: Fault, context: Any) -> None:
        self.met[name] += 1
        context.set_trailing_metadata(fault.refusal.trailing_metadata)
        await context.abort(fault.refusal.code, fault.refusal.message)


def _metadata(context: Any) -> tuple[tuple[str, str], ...]:
    """Returns the metadata of a call that is for the service."""
    return tuple((key, value) for key, value in context.invocation_metadata() if key.startswith("topicpolicies-"))


def _single(name: str, message: bytes) -> list[bytes]:
    """Splits a message of a watch into one for each event, so that the watch can break between any two events."""
    if name != "WatchPolicies":
        return [message]
    events = service_pb2.WatchPoliciesResponse.FromString(message).events
    return [service_pb2.WatchPoliciesResponse(events=[event]).SerializeToString() for event in events]


async def _pass_on(error: grpc.aio.AioRpcError, context: Any) -> None:
    context.set_trailing_metadata(tuple(error.trailing_metadata() or ()))
    await context.abort(error.code(), error.details() or "")
