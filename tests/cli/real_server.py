"""A real server on the embedded log, in a thread of its own, so that commands may block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server


@contextmanager
def running(directory: Path, *, history: bool = True) -> Iterator[str]:
    """Its address, as long as it runs."""
    config = ServerConfig(
        log=EmbeddedLogConfig(path=directory / "policies.db"),
        listen=parse_address("127.0.0.1:0"),
        history=HistoryConfig(path=directory / "history.db") if history else None,
    )
    ready, address = threading.Event(), [""]
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with Server(config) as server:
            address[0] = server.address
            ready.set()
            await stop.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        assert not thread.is_alive()
