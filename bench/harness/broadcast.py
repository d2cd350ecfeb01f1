"""The limit of a fan-out: one server stream a watcher, the same bytes for all, and nothing else. In a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import grpc
import uvloop

METHOD = "/bench.Broadcast/Watch"


class _Hub:
    """Sends messages to every stream as soon as all of them are there."""

    def __init__(self) -> None:
        self._ready = asyncio.Event()
        self._streams = 0

    async def watch(self, request: bytes, _: object) -> AsyncIterator[bytes]:
        """``request``: how many streams; then, again and again, how many messages of how many bytes."""
        streams, *sizes = map(int, request.split())
        self._streams += 1
        if self._streams == streams:
            self._streams = 0
            self._ready.set()
            self._ready = asyncio.Event()  # of the next that come
        else:
            await self._ready.wait()
        for messages, size in zip(sizes[::2], sizes[1::2], strict=True):
            message = bytes(size)
            for _each in range(messages):
                yield message
                await asyncio.sleep(0)  # the turn of the others, as between two changes


async def _serve(port: int) -> None:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(_Hub().watch)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Broadcast", {"Watch": handler}),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(sys.argv[1])))
