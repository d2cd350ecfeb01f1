"""The limits with which updates are compared: an empty unary call, and a stream that returns each message.

They run on the same gRPC stack as the server, in their own process.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import grpc
import uvloop

from topicpolicies_server.config import Limits

METHOD = "/bench.Echo/Echo"
STREAM = "/bench.Echo/Stream"


async def _echo(message: bytes, _: object) -> bytes:
    return message


async def _echo_all(messages: AsyncIterator[bytes], _: object) -> AsyncIterator[bytes]:
    async for message in messages:
        yield message


async def _serve(port: int) -> None:
    limits = Limits()
    server = grpc.aio.server(
        options=[("grpc.max_receive_message_length", limits.max_message_bytes), ("grpc.so_reuseport", 0)],
        maximum_concurrent_rpcs=limits.max_concurrent_calls,
    )
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Echo": grpc.unary_unary_rpc_method_handler(_echo),
        "Stream": grpc.stream_stream_rpc_method_handler(_echo_all),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(sys.argv[1])))
