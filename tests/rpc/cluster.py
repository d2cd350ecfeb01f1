"""A fake of a cluster: the port of its brokers accepts connections, and its admin API answers with a version."""

from __future__ import annotations

import asyncio
import json

from tests.ports import free_port


class FakeCluster:
    """A fake cluster that can be opened and shut, always at the same ports."""

    def __init__(self) -> None:
        self.ports = free_port(), free_port()
        self._servers: list[asyncio.Server] = []
        self.refuses = False
        """Whether the admin API refuses every request as unauthorized."""
        self.hangs = False
        """Whether the admin API accepts requests, and answers none until the cluster is shut."""
        self.deleted: set[str] = set()
        """Namespaces (``tenant/name``) for which the admin API answers "not found"."""
        self.logs: dict[str, tuple[int, str]] = {}
        """By namespace: the number of partitions and the time of creation that the admin API reports of its log."""
        self._ended = asyncio.Event()

    @property
    def service_url(self) -> str:
        """The URL of the brokers."""
        return f"pulsar://127.0.0.1:{self.ports[0]}"

    @property
    def admin_url(self) -> str:
        """The URL of the admin API."""
        return f"http://127.0.0.1:{self.ports[1]}"

    async def open(self, *which: int) -> None:
        """Listens at both ports, or only at these: 0 is that of the brokers, 1 that of the admin API."""
        for number in which or (0, 1):
            take = (self._hang_up, self._answer)[number]
            self._servers.append(await asyncio.start_server(take, "127.0.0.1", self.ports[number]))

    async def shut(self) -> None:
        """Stops listening."""
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
                answer = {"partitions": partitions} if path.endswith("/partitions") else {"creationDate": created}
                body = json.dumps(answer).encode()
        if any(f"/{namespace}" in path for namespace in self.deleted):
            status, body = "404 Not Found", b'{"reason": "gone"}'
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        writer.close()
