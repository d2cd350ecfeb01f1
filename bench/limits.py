"""The limits of calls and of watches: a server on the sidecar's gRPC stack, in a process of its own, that does nothing with its messages.

It answers calls with their message, and sends the same bytes to all watchers, over one stream for each.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Sequence

import grpc
import uvloop

from bench.targets import Program, running
from topicpolicies_server.config import Limits

ECHO = "/bench.Limits/Echo"
_BROADCAST = "/bench.Limits/Broadcast"
OPTIONS = (("grpc.max_receive_message_length", 64 << 20), ("grpc.use_local_subchannel_pool", 1))
"""Of channels with watches; each has its own connection."""


class _Hub:
    """Sends messages to every stream as soon as all streams are open."""

    def __init__(self) -> None:
        self._ready = asyncio.Event()
        self._streams = 0

    async def broadcast(self, request: bytes, _: object) -> AsyncIterator[bytes]:
        """Serves a stream. ``request``: the number of streams; then the size of each message in bytes."""
        streams, *sizes = map(int, request.split())
        self._streams += 1
        if self._streams == streams:
            self._streams = 0
            self._ready.set()
            self._ready = asyncio.Event()  # for the next streams
        else:
            await self._ready.wait()
        for size in sizes:
            yield bytes(size)
            await asyncio.sleep(0)  # gives the other streams a turn, as between two changes


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
        "Broadcast": grpc.unary_stream_rpc_method_handler(_Hub().broadcast),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Limits", handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


def limits() -> contextlib.AbstractContextManager[Program]:
    """Runs the server for as long as the context lasts."""
    return running("-m", "bench.limits", "PORT")


async def broadcast(channel: grpc.aio.Channel, sizes: Sequence[Sequence[int]]) -> float:
    """Reads messages of these sizes, for each watcher. Returns the seconds from the first message to the last one."""
    watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(_BROADCAST)
    first: list[float] = []

    async def one(mine: Sequence[int]) -> None:
        async for _ in watch(" ".join(map(str, (len(sizes), *mine))).encode()):
            if not first:
                first.append(time.perf_counter())

    await asyncio.gather(*map(one, sizes))
    return time.perf_counter() - first[0]


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(sys.argv[1])))
