"""A cluster that answers, or does not, without being one: its brokers' port takes connections, its admin API tells a version."""

from __future__ import annotations

import asyncio
import json

from tests.ports import free_port


class FakeCluster:
    """It can be shut and opened, always at the same ports."""

    def __init__(self) -> None:
        self.ports = free_port(), free_port()
        self._servers: list[asyncio.Server] = []
        self.refuses = False
        """Whether its admin API lets nobody in."""
        self.hangs = False
        """Whether that takes questions, and answers nothing until the end."""
        self.deleted: set[str] = set()
        """Namespaces (``tenant/name``) of which it says that they are not there."""
        self.logs: dict[str, tuple[int, str]] = {}
        """By namespace: the partitions and the time of creation of its log, if it is asked for."""
        self._ended = asyncio.Event()

    @property
    def service_url(self) -> str:
        """Where its brokers would be."""
        return f"pulsar://127.0.0.1:{self.ports[0]}"

    @property
    def admin_url(self) -> str:
        """Where its admin API is."""
        return f"http://127.0.0.1:{self.ports[1]}"

    async def open(self, *which: int) -> None:
        """Listens at both ports, or at those with these numbers."""
        for number in which or (0, 1):
            take = (self._hang_up, self._answer)[number]
            self._servers.append(await asyncio.start_server(take, "127.0.0.1", self.ports[number]))

    async def shut(self) -> None:
        """Listens no more."""
        self._ended.set()
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()

    async def _hang_up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        if self.hangs:
            await self._ended.wait()
        status, body = ("401 Unauthorized", b"no") if self.refuses else ("200 OK", b"4.2.4")
        for namespace, (partitions, created) in self.logs.items():
            if f"/persistent/{namespace}/" in path:
                told = {"partitions": partitions} if path.endswith("/partitions") else {"creationDate": created}
                body = json.dumps(told).encode()
        if any(f"/{namespace}" in path for namespace in self.deleted):
            status, body = "404 Not Found", b'{"reason": "gone"}'
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        writer.close()
