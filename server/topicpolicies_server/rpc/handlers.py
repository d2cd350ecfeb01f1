"""The methods of a gRPC server: bytes in, bytes out. Requests are decoded here (``decoding``); answers are serialized already.

A stream is written, not generated: what gRPC cancels ends the method where it stands, and so gives back at once what it has.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from typing import Any, TypeVar

import grpc

from topicpolicies.v1 import service_pb2

from ..core.errors import PolicyError
from .decoding import Parse, batches, decode, decoded
from .errors import abort
from .servicer import SERVICE, Servicer

_T = TypeVar("_T")


def handlers(servicer: Servicer, most: int) -> grpc.GenericRpcHandler:
    """The service, for a gRPC server; a request has at most ``most`` bytes."""

    def unary(method: Callable[..., Awaitable[bytes]], parse: Parse[_T]) -> grpc.RpcMethodHandler[bytes, bytes]:
        return grpc.unary_unary_rpc_method_handler(_one_of_one(method, parse, most))

    async def update_policies(stream: AsyncIterable[bytes], context: Any) -> None:
        await _write(servicer.update_policies(batches(stream, most), context), context)

    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "UpdatePolicy": unary(servicer.update_policy, service_pb2.UpdatePolicyRequest.FromString),
            "UpdatePolicies": grpc.stream_stream_rpc_method_handler(update_policies),
            "DeletePolicy": unary(servicer.delete_policy, service_pb2.DeletePolicyRequest.FromString),
            "GetPolicy": unary(servicer.get_policy, service_pb2.GetPolicyRequest.FromString),
            "GetEffectivePolicy": unary(servicer.get_effective_policy, service_pb2.GetEffectivePolicyRequest.FromString),
            "GetServerInfo": unary(servicer.get_server_info, service_pb2.GetServerInfoRequest.FromString),
            "ListHistory": unary(servicer.list_history, service_pb2.ListHistoryRequest.FromString),
            "ListPolicies": unary(servicer.list_policies, service_pb2.ListPoliciesRequest.FromString),
            "WatchPolicies": grpc.unary_stream_rpc_method_handler(
                _many_of_one(servicer.watch_policies, service_pb2.WatchPoliciesRequest.FromString, most)
            ),
        },
    )


class Decoding:
    """Stands in for a gRPC server where other services are added to it: their requests are decoded as ours are."""

    def __init__(self, server: grpc.aio.Server, most: int) -> None:
        """``most``: bytes that a request may have."""
        self._server = server
        self._most = most

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """What generated code adds a service with, beside the other one."""

    def add_registered_method_handlers(self, service: str, methods: dict[str, grpc.RpcMethodHandler[Any, Any]]) -> None:
        """Adds the methods of a service."""
        ours = {name: self._decoding(handler) for name, handler in methods.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, ours),))

    def _decoding(self, handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
        parse, serialize, most = handler.request_deserializer, handler.response_serializer, self._most
        assert parse is not None, "generated code says it"
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(_one_of_one(handler.unary_unary, parse, most), response_serializer=serialize)
        if handler.unary_stream is not None:
            written = _many_of_one(handler.unary_stream, parse, most)
            return grpc.unary_stream_rpc_method_handler(written, response_serializer=serialize)
        method: Any = handler.stream_stream
        assert method is not None, "no service has a stream of requests with one answer"

        async def stream_stream(stream: AsyncIterable[bytes], context: Any) -> None:
            try:
                await _write(method(decoded(parse, stream, most), context), context)
            except PolicyError as error:
                await abort(context, error)

        return grpc.stream_stream_rpc_method_handler(stream_stream, response_serializer=serialize)


def _one_of_one(method: Callable[[Any, Any], Awaitable[Any]], parse: Parse[Any], most: int) -> Callable[[bytes, Any], Awaitable[Any]]:
    async def unary_unary(raw: bytes, context: Any) -> Any:
        try:
            message = decode(parse, raw, most)
        except PolicyError as error:
            return await abort(context, error)
        return await method(message, context)

    return unary_unary


def _many_of_one(method: Callable[[Any, Any], Any], parse: Parse[Any], most: int) -> Callable[[bytes, Any], Awaitable[None]]:
    async def unary_stream(raw: bytes, context: Any) -> None:
        try:
            message = decode(parse, raw, most)
        except PolicyError as error:
            await abort(context, error)
        await _write(method(message, context), context)

    return unary_stream


async def _write(answers: AsyncGenerator[Any, None] | Awaitable[None], context: Any) -> None:
    """Writes what a method answers; some methods write it themselves."""
    if not isinstance(answers, AsyncGenerator):
        await answers
        return
    async with contextlib.aclosing(answers) as each:
        async for answer in each:
            await context.write(answer)
