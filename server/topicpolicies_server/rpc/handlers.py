"""The method handlers that a gRPC server is given: bytes in, bytes out.

Each handler wraps a method in a ``Call``: it registers the call with ``Calls``, passes it through the doors, decodes the request
(``decoding``), runs the method, and turns whatever the method raises into the status of the call. Answers are serialized already.

A handler returns after it has sent a status, and does not let gRPC's ``AbortError`` pass through its frames: gRPC keeps that error with the
call, and raises it itself once the handler has returned. So nothing that a refused call has sent is kept (``call.without_frames``).

To gRPC every method has a stream of requests. It calls the handlers of such methods as soon as it has the metadata of a call, so that the
request of a method with one is awaited here (``arriving``): within bounds, and only if the call is not refused because of its metadata.

Answers of a stream are written with ``call.write``, not yielded to gRPC. So when gRPC cancels a call, the cancellation is raised inside the
method where it stands, and the method releases what it holds at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import grpc

from topicpolicies.v1 import history_pb2, service_pb2

from ..core.errors import PolicyError
from .call import Call, Metadata, without_frames
from .calls import Calls
from .decoding import Parse, changes_of, decode, decoded
from .errors import internal
from .failures import Failures
from .history_service import HistoryServicer
from .leaving import stays
from .servicer import Servicer
from .watching.stream import Write

SERVICE = service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"].full_name
HISTORY_SERVICE = history_pb2.DESCRIPTOR.services_by_name["PolicyHistoryService"].full_name


def handlers(servicer: Servicer, history: HistoryServicer, most: int) -> tuple[grpc.GenericRpcHandler, ...]:
    """Returns the handlers of both services for a gRPC server. ``most``: bytes that a request message may have."""
    methods = _Methods(servicer.calls, most, endless=False)
    unary: dict[str, tuple[Callable[..., Awaitable[bytes]], Parse[Any]]] = {
        "UpdatePolicy": (servicer.update_policy, service_pb2.UpdatePolicyRequest.FromString),
        "BatchUpdatePolicies": (servicer.batch_update_policies, changes_of),
        "DeletePolicy": (servicer.delete_policy, service_pb2.DeletePolicyRequest.FromString),
        "GetPolicy": (servicer.get_policy, service_pb2.GetPolicyRequest.FromString),
        "GetEffectivePolicy": (servicer.get_effective_policy, service_pb2.GetEffectivePolicyRequest.FromString),
        "GetServerInfo": (servicer.get_server_info, service_pb2.GetServerInfoRequest.FromString),
        "ListPolicies": (servicer.list_policies, service_pb2.ListPoliciesRequest.FromString),
    }

    watch = methods.writing("WatchPolicies", servicer.watch_policies, service_pb2.WatchPoliciesRequest.FromString)
    methods_by_name: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "WatchPolicies": grpc.stream_stream_rpc_method_handler(watch),
    }
    for name, (method, parse) in unary.items():
        methods_by_name[name] = grpc.stream_unary_rpc_method_handler(methods.unary_unary(name, method, parse))
    list_history = methods.unary_unary("ListHistory", history.list_history, history_pb2.ListHistoryRequest.FromString)
    as_of = methods.unary_unary("GetPolicyAsOf", history.get_policy_as_of, history_pb2.GetPolicyAsOfRequest.FromString)
    watch_history = methods.writing("WatchHistory", history.watch_history, history_pb2.WatchHistoryRequest.FromString)
    of_history: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "ListHistory": grpc.stream_unary_rpc_method_handler(list_history),
        "GetPolicyAsOf": grpc.stream_unary_rpc_method_handler(as_of),
        "WatchHistory": grpc.stream_stream_rpc_method_handler(watch_history),
    }
    return (
        grpc.method_handlers_generic_handler(SERVICE, methods_by_name),
        grpc.method_handlers_generic_handler(HISTORY_SERVICE, of_history),
    )


class LibraryServices:
    """Stands in for the gRPC server when services of libraries (health, reflection) are added to it with their generated code.

    It wraps their methods like those of our own service, so that their calls pass the same doors, count as calls in progress and end in the
    same way. In place of gRPC's context these methods receive the ``Call``.
    """

    def __init__(self, server: grpc.aio.Server, calls: Calls, most: int) -> None:
        """``server``: to which the wrapped methods are added; ``most``: bytes that a request message may have."""
        self._server = server
        self._methods = _Methods(calls, most, endless=True)
        self._most = most

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """Does nothing: generated code calls this beside ``add_registered_method_handlers``, with the same handlers."""

    def add_registered_method_handlers(self, service: str, methods: dict[str, grpc.RpcMethodHandler[Any, Any]]) -> None:
        """Wraps the methods of a service and adds them to the gRPC server."""
        ours = {name: self._method(f"{service}/{name}", handler) for name, handler in methods.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, ours),))

    def _method(self, name: str, handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
        parse, serialize, most = handler.request_deserializer, handler.response_serializer, self._most
        assert parse is not None, "generated code says it"
        one: Any = handler.unary_unary
        if one is not None:
            unary = self._methods.unary_unary(name, one, parse)
            return grpc.stream_unary_rpc_method_handler(unary, response_serializer=serialize)
        several: Any = handler.unary_stream
        if several is not None:
            stream = self._methods.unary_stream(name, several, parse)
            return grpc.stream_stream_rpc_method_handler(stream, response_serializer=serialize)
        method: Any = handler.stream_stream
        assert method is not None, "no service has a stream of requests with one answer"
        both = self._methods.written(name, lambda stream, call: method(decoded(parse, stream, most), call))
        return grpc.stream_stream_rpc_method_handler(both, response_serializer=serialize)


class _Methods:
    """Makes gRPC methods of the methods of services: each decodes its request, is a call in progress, and ends with a status."""

    def __init__(self, calls: Calls, most: int, *, endless: bool) -> None:
        """Wraps methods whose calls are registered with ``calls``.

        Args:
            calls: the calls in progress.
            most: bytes that a request message may have.
            endless: whether the streams do not end by themselves when the server stops, as those of health and reflection.
        """
        self._calls = calls
        self._most = most
        self._endless = endless
        self._failures = Failures()

    def unary_unary(
        self, name: str, method: Callable[[Any, Call], Awaitable[Any]], parse: Parse[Any]
    ) -> Callable[[Any, Any], Awaitable[Any]]:
        """Wraps a method with one request and one answer."""
        calls, most, long = self._calls, self._most, stays(name)

        async def unary_unary(_requests: Any, context: Any) -> Any:
            metadata = tuple(context.invocation_metadata() or ())
            raw = await self._request(name, context, metadata)
            if raw is None:
                return None
            call = calls.arrived(name, context, len(raw), metadata)
            try:
                calls.register(call)
                calls.lateness.add(call)
                try:
                    try:
                        for door in calls.doors if long else calls.unary_doors:  # as `enter` does, without a coroutine for each call
                            if (passing := door(call)) is not None:
                                await passing
                        return await method(decode(parse, raw, most), call)
                    except Exception as error:  # noqa: BLE001 (whatever it is, the caller is told no more than that it was our fault)
                        await self._end_failed(call, error)
                except asyncio.CancelledError:
                    await _end_cancelled(call)
                finally:
                    calls.unregister(call)
            except PolicyError as error:  # it was not registered
                await call.refuse(error)
            finally:
                calls.finished(call, stays=long)
            return None

        return unary_unary

    def unary_stream(self, name: str, method: Callable[[Any, Call], Any], parse: Parse[Any]) -> Callable[[Any, Any], Awaitable[None]]:
        """Wraps a method with one request, which yields answers or writes them itself."""
        return self._streaming(name, lambda raw, call: _write(method(decode(parse, raw, self._most), call), call))

    def written(self, name: str, method: Callable[[Any, Call], Any]) -> Callable[[Any, Any], Awaitable[None]]:
        """Wraps a method that takes the stream of undecoded requests, and yields answers or writes them itself."""

        async def written(requests: Any, context: Any) -> None:
            await self._run(name, context, 0, lambda call: _write(method(requests, call), call))

        return written

    def writing(
        self, name: str, method: Callable[[Any, Call, Write], Awaitable[None]], parse: Parse[Any]
    ) -> Callable[[Any, Any], Awaitable[None]]:
        """Wraps a method with one request, which writes its answers with the function that it receives as its last argument."""
        return self._streaming(name, lambda raw, call: method(decode(parse, raw, self._most), call, call.write))

    def _streaming(self, name: str, method: Callable[[bytes, Call], Awaitable[None]]) -> Callable[[Any, Any], Awaitable[None]]:
        """Wraps a method that takes the undecoded request, and writes its answers."""

        async def streaming(_requests: Any, context: Any) -> None:
            raw = await self._request(name, context, tuple(context.invocation_metadata() or ()))
            if raw is not None:
                await self._run(name, context, len(raw), lambda call: method(raw, call))

        return streaming

    async def _request(self, name: str, context: Any, metadata: Metadata) -> bytes | None:
        """Returns the request of a call, once it has arrived; None: the call was refused before that, and has its status."""
        calls = self._calls
        error: PolicyError | None
        try:
            error = calls.early_refusal(name, metadata)
            if error is None:
                stranger = self._endless and calls.is_stranger(name, metadata)
                return await calls.arriving.read(context, stranger=stranger)
        except PolicyError as refusal:
            error = refusal
        call = calls.arrived(name, context, 0, metadata)
        try:
            await call.refuse(error)
        finally:
            calls.finished(call, stays=stays(name))
        return None

    async def _run(self, name: str, context: Any, size: int, method: Callable[[Call], Awaitable[None]]) -> None:
        calls, endless = self._calls, self._endless
        call = calls.arrived(name, context, size)
        try:
            calls.register(call, endless=endless)
            try:
                try:
                    if calls.doors:
                        await calls.enter(call)
                    await method(call)
                except Exception as error:  # noqa: BLE001 (as above)
                    await self._end_failed(call, error)
            except asyncio.CancelledError:
                await _end_cancelled(call)
            finally:
                calls.unregister(call, endless=endless)
        except PolicyError as error:  # as above
            await call.refuse(error)
        finally:
            calls.finished(call, stays=True)

    async def _end_failed(self, call: Call, error: Exception) -> None:
        """Ends a call with an error that its method or a door raised. The handler must return then.

        A ``PolicyError`` becomes the call's status. After an ``AbortError`` the call has its status; after an ``InternalError`` the peer
        has gone, and none can reach it. Any other error is logged, and becomes INTERNAL.

        Raises:
            asyncio.CancelledError: the peer has gone.
        """
        if isinstance(error, PolicyError):
            await call.refuse(error)
        elif isinstance(error, grpc.aio.AbortError):
            without_frames(error)
        elif isinstance(error, grpc.aio.InternalError):
            call.gone()
        else:
            self._failures.log(call.method, error)
            await call.refuse(internal())


async def _write(answers: AsyncGenerator[Any, None] | Awaitable[None], call: Call) -> None:
    """Writes the answers that a method yields; awaits a method that writes them itself."""
    if not isinstance(answers, AsyncGenerator):
        await answers
        return
    async with contextlib.aclosing(answers) as each:
        async for answer in each:
            await call.write(answer)


async def _end_cancelled(call: Call) -> None:
    """Ends a cancelled call: with a status that says why, or without one if the caller has gone, does not read, or has its status.

    Raises:
        asyncio.CancelledError: the call ends without this status.
    """
    why = call.why_cancelled()
    if why is None:
        call.given_up = True
        raise asyncio.CancelledError
    if call.code:  # the call was cancelled while it was sending its status: gRPC takes one status, and goes on sending that
        raise asyncio.CancelledError
    await call.refuse(why)
