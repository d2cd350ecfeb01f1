"""A TCP proxy on loopback that aborts its connections on request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class CuttingProxy:
    """Forwards bytes between clients and one server."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._open: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self.address = ""
        self.cuts = 0
        """How many connections were aborted."""

    def cut(self) -> None:
        """Aborts all connections, without closing them properly."""
        for writer in self._open:
            writer.transport.abort()
            self.cuts += 1

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listens on a free port."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield
            server.close()
            self.cut()
            for task in self._passing:
                task.cancel()
            await asyncio.gather(*self._passing, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            back, forth = await asyncio.open_connection(*self._target)
            passing = {asyncio.ensure_future(self._pass(reader, forth)), asyncio.ensure_future(self._pass(back, writer))}
            self._passing |= passing
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            for task in passing:
                task.cancel()
            self._passing -= passing
            forth.transport.abort()
        except OSError:
            pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65_536):
                target.write(data)
                await target.drain()
