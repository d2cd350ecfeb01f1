"""The limit of a fan-out: a process that only sends the same bytes to all watchers, over one server stream for each."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator

import grpc
import uvloop

from .targets import running

METHOD = "/bench.Broadcast/Watch"
_DELIVERIES = 40_000
_MESSAGE_BYTES = 250
"""About the size of one change of a small document."""


class _Hub:
    """Sends messages to every stream as soon as all streams are open."""

    def __init__(self) -> None:
        self._ready = asyncio.Event()
        self._streams = 0

    async def watch(self, request: bytes, _: object) -> AsyncIterator[bytes]:
        """Serves a stream. ``request``: the number of streams; then pairs of a number of messages and their size in bytes."""
        streams, *sizes = map(int, request.split())
        self._streams += 1
        if self._streams == streams:
            self._streams = 0
            self._ready.set()
            self._ready = asyncio.Event()  # for the next streams
        else:
            await self._ready.wait()
        for messages, size in zip(sizes[::2], sizes[1::2], strict=True):
            message = bytes(size)
            for _each in range(messages):
                yield message
                await asyncio.sleep(0)  # gives the other streams a turn, as between two changes


async def _serve(port: int) -> None:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(_Hub().watch)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Broadcast", {"Watch": handler}),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


def deliveries_per_second(watchers: int) -> tuple[float, str]:
    """Measures deliveries of prepared bytes to this many server streams. Returns how many a second, and what they were."""
    with running("-m", "bench.broadcast", "PORT") as program:
        rate = asyncio.run(_deliveries(program.address, watchers, max(10, _DELIVERIES // watchers)))
    return rate, f"deliveries of {_MESSAGE_BYTES} prepared bytes to {watchers} streams"


async def _deliveries(address: str, watchers: int, messages: int) -> float:
    async with grpc.aio.insecure_channel(address) as channel:
        watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(METHOD)
        first: list[float] = []

        async def one() -> None:
            async for _ in watch(f"{watchers} {messages} {_MESSAGE_BYTES}".encode()):
                if not first:
                    first.append(time.perf_counter())

        await asyncio.gather(*(one() for _ in range(watchers)))
        return watchers * messages / (time.perf_counter() - first[0])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(sys.argv[1])))
