"""The limit with which updates are compared: a unary call that returns its message, on the server's gRPC stack, in a process of its own."""

from __future__ import annotations

import asyncio
import sys

import grpc
import uvloop

from topicpolicies_server.config import Limits

METHOD = "/bench.Echo/Echo"


async def _echo(message: bytes, _: object) -> bytes:
    return message


async def _serve(port: int) -> None:
    limits = Limits()
    server = grpc.aio.server(
        options=[("grpc.max_receive_message_length", limits.max_message_bytes), ("grpc.so_reuseport", 0)],
        maximum_concurrent_rpcs=limits.max_concurrent_calls,
    )
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Echo": grpc.unary_unary_rpc_method_handler(_echo),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(sys.argv[1])))
