"""Requests to the admin API are limited. Others wait in order, not for long behind those that hang, and at no cost of processor time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin import PLACES, Admin


class Broker:
    """A broker that answers when the test lets it, and counts concurrent requests. It answers nothing about ``hanging``."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.hanging: set[str] = set()
        self.most = 0
        self.answering = asyncio.Event()
        self.released = asyncio.Event()
        """Set when what hangs is answered."""
        self._open = 0

    def release(self) -> None:
        """Answers what hangs, and hangs no more."""
        self.hanging.clear()
        self.released.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                while (await reader.readline()).strip():
                    pass
                path = line.decode().split()[1]
                self.asked.append(path.rpartition("/")[2])
                if any(f"/{name}/" in path for name in self.hanging):
                    await self.released.wait()
                self._open += 1
                self.most = max(self.most, self._open)
                await self.answering.wait()
                await asyncio.sleep(0.001)  # meanwhile other requests arrive
                self._open -= 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        finally:
            writer.close()


@asynccontextmanager
async def asking(broker: Broker) -> AsyncIterator[Admin]:
    listening = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with listening:
        admin = Admin(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
        try:
            yield admin
        finally:
            broker.answering.set()
            broker.release()  # Python 3.12 waits for what is served before the server is closed
            await admin.close()


async def test_a_request_without_a_connection_in_time_fails_and_a_cancelled_one_leaves_the_queue() -> None:
    broker = Broker()
    async with asking(broker) as admin:
        hanging = [asyncio.create_task(admin.get("a", str(number))) for number in range(PLACES)]
        while len(broker.asked) < PLACES:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        with pytest.raises(LogError, match="too many other requests wait before it") as refused:
            await admin.get("a", "late", seconds=0.2)
        assert refused.value.state == LogState.ADMIN_UNREACHABLE
        gone = asyncio.create_task(admin.get("a", "gone"))
        last = asyncio.create_task(admin.get("a", "last"))
        await asyncio.sleep(0.05)
        gone.cancel()
        broker.answering.set()
        assert await asyncio.gather(*hanging) == [{}] * PLACES
        assert await last == {}
    assert broker.asked[PLACES:] == ["last"]


async def test_waiting_requests_fail_when_the_client_is_closed() -> None:
    broker = Broker()
    async with asking(broker) as admin:
        tasks = [asyncio.create_task(admin.get("a", str(number))) for number in range(3 * PLACES)]
        while len(broker.asked) < PLACES:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        async with asyncio.timeout(10):
            await admin.close()
            for had in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(had, LogError) and "was closed" in had.message
    assert len(broker.asked) == PLACES


async def _answer(admin: Admin, name: str) -> None:
    """Asks one question about a namespace; what hangs fails after a minute."""
    assert await admin.get("persistent", "acme", name, "__change_events", "internalStats", seconds=60.0) == {}


def _hang(admin: Admin, name: str, count: int) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(_answer(admin, name)) for _ in range(count)]


async def test_hanging_requests_about_one_namespace_delay_no_other_namespace() -> None:
    broker = Broker()
    broker.answering.set()
    broker.hanging.add("bad")
    async with asking(broker) as admin:
        hanging = _hang(admin, "bad", 3 * PLACES)
        await asyncio.sleep(0.1)
        await _answer(admin, "first")
        hanging += _hang(admin, "bad", 100)
        await asyncio.gather(*(_answer(admin, f"other-{number}") for number in range(100)))
        assert not any(each.done() for each in hanging)
        broker.release()
        await asyncio.gather(*hanging)


async def test_hanging_requests_about_many_namespaces_delay_none_about_roles() -> None:
    broker = Broker()
    broker.answering.set()
    broker.hanging |= {f"bad-{number}" for number in range(10)}
    async with asking(broker) as admin:
        hanging = [task for name in broker.hanging for task in _hang(admin, name, 8)]
        await asyncio.sleep(0.1)
        assert await admin.get("tenants", "acme", seconds=60.0) == {}
        assert not any(each.done() for each in hanging)
        broker.release()
        await asyncio.gather(*hanging)
