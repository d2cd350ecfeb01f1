"""The methods of a gRPC server: bytes in, bytes out. Requests are decoded here (``decoding``); answers are serialized already.

A stream is written, not generated: what gRPC cancels ends the method where it stands, and so gives back at once what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from typing import Any, NoReturn

import grpc

from topicpolicies.v1 import service_pb2

from ..core.errors import PolicyError
from .call import Call
from .calls import Calls
from .decoding import Parse, batches, decode, decoded
from .errors import abort, internal
from .failures import Failures
from .leaving import stays
from .servicer import SERVICE, Servicer
from .watching.stream import Write


def handlers(servicer: Servicer, most: int) -> grpc.GenericRpcHandler:
    """The service, for a gRPC server; a request has at most ``most`` bytes."""
    methods = _Methods(servicer.calls, most, endless=False)
    unary: dict[str, tuple[Callable[..., Awaitable[bytes]], Parse[Any]]] = {
        "UpdatePolicy": (servicer.update_policy, service_pb2.UpdatePolicyRequest.FromString),
        "DeletePolicy": (servicer.delete_policy, service_pb2.DeletePolicyRequest.FromString),
        "GetPolicy": (servicer.get_policy, service_pb2.GetPolicyRequest.FromString),
        "GetEffectivePolicy": (servicer.get_effective_policy, service_pb2.GetEffectivePolicyRequest.FromString),
        "GetServerInfo": (servicer.get_server_info, service_pb2.GetServerInfoRequest.FromString),
        "ListHistory": (servicer.list_history, service_pb2.ListHistoryRequest.FromString),
        "ListPolicies": (servicer.list_policies, service_pb2.ListPoliciesRequest.FromString),
    }

    def update_policies(stream: AsyncIterable[bytes], call: Call) -> AsyncGenerator[bytes, None]:
        return servicer.update_policies(batches(stream, most), call)

    watch = methods.writing("WatchPolicies", servicer.watch_policies, service_pb2.WatchPoliciesRequest.FromString)
    methods_by_name: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "UpdatePolicies": grpc.stream_stream_rpc_method_handler(methods.written("UpdatePolicies", update_policies)),
        "WatchPolicies": grpc.unary_stream_rpc_method_handler(watch),
    }
    for name, (method, parse) in unary.items():
        methods_by_name[name] = grpc.unary_unary_rpc_method_handler(methods.unary_unary(name, method, parse))
    return grpc.method_handlers_generic_handler(SERVICE, methods_by_name)


class Others:
    """Stands in for a gRPC server where other services are added to it: their requests are decoded, and their calls end, as ours do.

    In place of gRPC's context their methods have the ``Call``.
    """

    def __init__(self, server: grpc.aio.Server, calls: Calls, most: int) -> None:
        """``most``: bytes that a request may have."""
        self._server = server
        self._methods = _Methods(calls, most, endless=True)
        self._most = most

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """What generated code adds a service with, beside the other one."""

    def add_registered_method_handlers(self, service: str, methods: dict[str, grpc.RpcMethodHandler[Any, Any]]) -> None:
        """Adds the methods of a service."""
        ours = {name: self._method(f"{service}/{name}", handler) for name, handler in methods.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, ours),))

    def _method(self, name: str, handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
        parse, serialize, most = handler.request_deserializer, handler.response_serializer, self._most
        assert parse is not None, "generated code says it"
        one: Any = handler.unary_unary
        if one is not None:
            unary = self._methods.unary_unary(name, one, parse)
            return grpc.unary_unary_rpc_method_handler(unary, response_serializer=serialize)
        several: Any = handler.unary_stream
        if several is not None:
            stream = self._methods.unary_stream(name, several, parse)
            return grpc.unary_stream_rpc_method_handler(stream, response_serializer=serialize)
        method: Any = handler.stream_stream
        assert method is not None, "no service has a stream of requests with one answer"
        both = self._methods.written(name, lambda stream, call: method(decoded(parse, stream, most), call))
        return grpc.stream_stream_rpc_method_handler(both, response_serializer=serialize)


class _Methods:
    """Makes methods for gRPC, which decode, write, and are calls in progress meanwhile."""

    def __init__(self, calls: Calls, most: int, *, endless: bool) -> None:
        """``endless``: whether streams do not end by themselves when the server stops."""
        self._calls = calls
        self._most = most
        self._endless = endless
        self._failures = Failures()

    def unary_unary(
        self, name: str, method: Callable[[Any, Call], Awaitable[Any]], parse: Parse[Any]
    ) -> Callable[[bytes, Any], Awaitable[Any]]:
        """A method with one answer."""
        calls, most, long = self._calls, self._most, stays(name)

        async def unary_unary(raw: bytes, context: Any) -> Any:
            call = calls.came(name, context, len(raw))
            try:
                calls.begin(call)
                calls.lateness.add(call)
                try:
                    try:
                        for door in calls.doors if long else calls.unary_doors:  # as `enter` does, without a coroutine for each call
                            if (passing := door(call)) is not None:
                                await passing
                    except Exception as error:  # noqa: BLE001 (told)
                        calls.shut(call, error)
                    return await method(decode(parse, raw, most), call)
                except asyncio.CancelledError:
                    return await _tell_end(call)
                finally:
                    calls.end(call)
            except Exception as error:  # noqa: BLE001 (whatever it is, the caller is told no more than that it was our fault)
                return await self._tell(call, error)
            finally:
                calls.over(call, stays=long)

        return unary_unary

    def unary_stream(self, name: str, method: Callable[[Any, Call], Any], parse: Parse[Any]) -> Callable[[bytes, Any], Awaitable[None]]:
        """A method with a stream of answers."""
        return self.written(name, lambda raw, call: method(decode(parse, raw, self._most), call))

    def written(self, name: str, method: Callable[[Any, Call], Any]) -> Callable[[Any, Any], Awaitable[None]]:
        """A method that makes a stream of answers, or writes it itself."""

        async def written(request: Any, context: Any) -> None:
            size = len(request) if isinstance(request, bytes) else 0
            await self._run(name, context, size, lambda call: _write(method(request, call), call))

        return written

    def writing(
        self, name: str, method: Callable[[Any, Call, Write], Awaitable[None]], parse: Parse[Any]
    ) -> Callable[[bytes, Any], Awaitable[None]]:
        """A method with a stream of answers, which it writes with what it is given for that."""

        async def writing(raw: bytes, context: Any) -> None:
            await self._run(name, context, len(raw), lambda call: method(decode(parse, raw, self._most), call, call.write))

        return writing

    async def _run(self, name: str, context: Any, size: int, method: Callable[[Call], Awaitable[None]]) -> None:
        calls, endless = self._calls, self._endless
        call = calls.came(name, context, size)
        try:
            calls.begin(call, endless=endless)
            try:
                if calls.doors:
                    await calls.enter(call)
                await method(call)
            except asyncio.CancelledError:
                await _tell_end(call)
            finally:
                calls.end(call, endless=endless)
        except Exception as error:  # noqa: BLE001 (as above)
            await self._tell(call, error)
        finally:
            calls.over(call, stays=True)

    async def _tell(self, call: Call, error: Exception) -> NoReturn:
        """A call ends with an error: one for its caller, the end of one that was told it, or has gone, or one that nobody foresaw."""
        if isinstance(error, PolicyError):
            await abort(call, error)
        if isinstance(error, grpc.aio.AbortError):
            raise error
        if isinstance(error, grpc.aio.InternalError):  # gRPC's word for what could not be written: there is nobody who reads it
            call.given_up = True
            raise error
        self._failures.tell(call.method, error)
        await abort(call, internal())


async def _write(answers: AsyncGenerator[Any, None] | Awaitable[None], call: Call) -> None:
    """Writes what a method answers; some methods write it themselves."""
    if not isinstance(answers, AsyncGenerator):
        await answers
        return
    async with contextlib.aclosing(answers) as each:
        async for answer in each:
            await call.write(answer)


async def _tell_end(call: Call) -> NoReturn:
    """A call was cancelled: it is told why, if it can be."""
    why = call.why_cancelled()
    if why is None:
        call.given_up = True
        raise asyncio.CancelledError
    if call.code:  # its end was being told as it was cancelled: gRPC takes one, and goes on with that
        raise asyncio.CancelledError
    await abort(call, why)
