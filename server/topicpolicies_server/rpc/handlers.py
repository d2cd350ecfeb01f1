"""The methods of all services of the server, as gRPC calls them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc

from topicpolicies.v1 import history_pb2, service_pb2

from .calls import Call, Calls, Method
from .servicer import Servicer

SERVICE = service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"].full_name
UNCONFIRMED_KEY = "topicpolicies-unconfirmed-since"
"""The trailing metadata of an answer from a view that can't be confirmed, for the log is out of reach: since when (ISO 8601, UTC)."""
HISTORY_SERVICE = history_pb2.DESCRIPTOR.services_by_name["PolicyHistoryService"].full_name


def handlers(servicer: Servicer, calls: Calls) -> tuple[grpc.GenericRpcHandler, ...]:
    """Returns the handlers of both services for a gRPC server."""
    common = servicer.registry.common

    def confirm(call: Call) -> None:
        """Says in an answer since when the log can't be reached, if it can't."""
        readiness = common.readiness
        if readiness.cut_off and not common.context.sole_writer:
            since = datetime.now(UTC) - timedelta(seconds=time.monotonic() - readiness.since)
            call.context.set_trailing_metadata(((UNCONFIRMED_KEY, since.isoformat(timespec="milliseconds")),))

    def unary(name: str, request: Any, method: Method[Any]) -> grpc.RpcMethodHandler[Any, Any]:
        return grpc.unary_unary_rpc_method_handler(calls.handler(name, request.FromString, method, stream=False, answered=confirm))

    def stream(name: str, request: Any, method: Method[Any]) -> grpc.RpcMethodHandler[Any, Any]:
        return grpc.unary_stream_rpc_method_handler(calls.handler(name, request.FromString, method, stream=True))

    policies = {
        "UpdatePolicy": unary("UpdatePolicy", service_pb2.UpdatePolicyRequest, servicer.update_policy),
        "BatchUpdatePolicies": unary("BatchUpdatePolicies", service_pb2.BatchUpdatePoliciesRequest, servicer.batch_update_policies),
        "DeletePolicy": unary("DeletePolicy", service_pb2.DeletePolicyRequest, servicer.delete_policy),
        "GetPolicy": unary("GetPolicy", service_pb2.GetPolicyRequest, servicer.get_policy),
        "GetEffectivePolicy": unary("GetEffectivePolicy", service_pb2.GetEffectivePolicyRequest, servicer.get_effective_policy),
        "GetServerInfo": unary("GetServerInfo", service_pb2.GetServerInfoRequest, servicer.get_server_info),
        "ListPolicies": unary("ListPolicies", service_pb2.ListPoliciesRequest, servicer.list_policies),
        "WatchPolicies": stream("WatchPolicies", service_pb2.WatchPoliciesRequest, servicer.watch_policies),
    }
    of_history = {
        "ListHistory": unary("ListHistory", history_pb2.ListHistoryRequest, servicer.list_history),
        "GetPolicyAsOf": unary("GetPolicyAsOf", history_pb2.GetPolicyAsOfRequest, servicer.get_policy_as_of),
        "WatchHistory": stream("WatchHistory", history_pb2.WatchHistoryRequest, servicer.watch_history),
    }
    return (
        grpc.method_handlers_generic_handler(SERVICE, policies),
        grpc.method_handlers_generic_handler(HISTORY_SERVICE, of_history),
    )


class LibraryServices:
    """Stands in for the gRPC server when services of libraries (health, reflection) are added to it with their generated code.

    It wraps their methods like those of our own service. In place of gRPC's context these methods receive the ``Call``.
    """

    def __init__(self, server: grpc.aio.Server, calls: Calls) -> None:
        """``server``: to which the wrapped methods are added."""
        self._server = server
        self._calls = calls

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """Does nothing: generated code calls this beside ``add_registered_method_handlers``, with the same handlers."""

    def add_registered_method_handlers(self, service: str, methods: dict[str, grpc.RpcMethodHandler[Any, Any]]) -> None:
        """Wraps the methods of a service and adds them to the gRPC server."""
        ours = {name: self._method(f"{service}/{name}", handler) for name, handler in methods.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, ours),))

    def _method(self, name: str, handler: Any) -> grpc.RpcMethodHandler[Any, Any]:
        calls, parse, serialize = self._calls, handler.request_deserializer, handler.response_serializer
        if handler.unary_unary is not None:
            one = calls.handler(name, parse, handler.unary_unary, stream=False, endless=True)
            return grpc.unary_unary_rpc_method_handler(one, response_serializer=serialize)
        if handler.unary_stream is not None:
            several = calls.handler(name, parse, handler.unary_stream, stream=True, endless=True)
            return grpc.unary_stream_rpc_method_handler(several, response_serializer=serialize)
        assert handler.stream_stream is not None, "no service has a stream of requests with one answer"

        async def both(requests: Any, call: Call) -> None:
            decoded = (calls.decode(parse, raw) async for raw in requests)
            async for answer in handler.stream_stream(decoded, call):
                await call.write(answer)

        both_streams = calls.handler(name, None, both, stream=True, endless=True)
        return grpc.stream_stream_rpc_method_handler(both_streams, response_serializer=serialize)
