"""Fake sidecars of which one is the leader, for the clients of all languages. They forward calls to one server with the documents."""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import Any, NoReturn, Self

import grpc
from grpc import aio

from topicpolicies.channels import ACTOR_KEY
from topicpolicies.names import namespace_of
from topicpolicies.v1 import service_pb2, service_pb2_grpc
from topicpolicies_server.logs.change_log import Leadership, NotLeader
from topicpolicies_server.rpc import errors

_SERVICE = "topicpolicies.v1.TopicPoliciesService"


class Member:
    """One sidecar. While another one is the leader, it refuses changes as a real sidecar does."""

    def __init__(self, server: str, credentials: grpc.ServerCredentials | None = None) -> None:
        """``server``: the address of the server that calls are forwarded to; ``credentials``: the member's TLS, None: without TLS."""
        self._channel = aio.insecure_channel(server)
        self._behind = service_pb2_grpc.TopicPoliciesServiceStub(self._channel)
        self._server = aio.server()
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "UpdatePolicy": grpc.unary_unary_rpc_method_handler(
                self._update,
                request_deserializer=service_pb2.UpdatePolicyRequest.FromString,
                response_serializer=service_pb2.UpdatePolicyResponse.SerializeToString,
            ),
            "GetPolicy": grpc.unary_unary_rpc_method_handler(
                self._get,
                request_deserializer=service_pb2.GetPolicyRequest.FromString,
                response_serializer=service_pb2.GetPolicyResponse.SerializeToString,
            ),
        }
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_SERVICE, handlers)])
        if credentials is None:
            port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self.address = f"127.0.0.1:{port}"
        self.leader = self.address
        """The address of the leader."""
        self.refused: Counter[str] = Counter()
        """How many changes were refused, by actor."""
        self.accepted: Counter[str] = Counter()
        """How many changes were accepted, by actor."""

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._server.stop(None)
        await self._channel.close()

    async def _update(
        self, request: service_pb2.UpdatePolicyRequest, context: aio.ServicerContext[Any, Any]
    ) -> service_pb2.UpdatePolicyResponse:
        metadata = context.invocation_metadata() or ()
        actor = next((str(value) for key, value in metadata if key == ACTOR_KEY), "")
        if self.leader != self.address:
            self.refused[actor] += 1
            error = NotLeader(namespace_of(request.topic), Leadership(leads=False, leader=self.leader))
            await context.abort(grpc.StatusCode.UNAVAILABLE, error.message, errors.trailing_metadata(error))
        self.accepted[actor] += 1
        try:
            return await self._behind.UpdatePolicy(request, metadata=((ACTOR_KEY, actor),))
        except aio.AioRpcError as error:
            return await _passed_back(error, context)

    async def _get(self, request: service_pb2.GetPolicyRequest, context: aio.ServicerContext[Any, Any]) -> service_pb2.GetPolicyResponse:
        try:
            return await self._behind.GetPolicy(request)
        except aio.AioRpcError as error:
            return await _passed_back(error, context)


async def _passed_back(error: aio.AioRpcError, context: aio.ServicerContext[Any, Any]) -> NoReturn:
    await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata()))
    raise AssertionError("abort raises")
