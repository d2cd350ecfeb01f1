"""A proxy between a sidecar and a broker that can hold back the messages of the log, as a slow connection does; answers go through."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

from tests.broker.pulsar_broker import Broker
from tests.ports import free_port

_LOOKUP_RESPONSE, _MESSAGE = 24, 9
"""Types of commands in Pulsar's protocol."""
_SECONDS = 20


class DelayingProxy:
    """Listens on a port of its own, in a thread of its own; the broker's answers to lookups lead to it too."""

    def __init__(self, broker: Broker) -> None:
        """Does not listen yet."""
        self._broker = broker
        self._port = free_port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._holding = False
        self._held: list[tuple[asyncio.StreamWriter, bytes]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def service_url(self) -> str:
        """The URL for clients, in place of the broker's."""
        return f"pulsar://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        self._loop.close()

    def hold(self) -> None:
        """Holds back messages from now on."""
        self._holding = True

    def release(self) -> int:
        """Delivers the messages that were held back, and returns their number."""
        return asyncio.run_coroutine_threadsafe(self._release(), self._loop).result(_SECONDS)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, "127.0.0.1", self._port)

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _release(self) -> int:
        self._holding = False
        held, self._held = self._held, []
        for writer, frame in held:
            writer.write(frame)
        return len(held)

    async def _connected(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        broker, requests = await asyncio.open_connection("127.0.0.1", self._broker.ports.service)
        try:
            await asyncio.gather(self._copy(client, requests), self._answer(broker, answers))
        except (asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
            pass
        finally:
            requests.close()
            answers.close()
            self._tasks.discard(task)

    async def _copy(self, client: asyncio.StreamReader, requests: asyncio.StreamWriter) -> None:
        while data := await client.read(1 << 16):
            requests.write(data)
            await requests.drain()
        raise OSError("the client has ended the connection")

    async def _answer(self, broker: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        theirs, ours = self._broker.service_url.encode(), self.service_url.encode()
        assert len(theirs) == len(ours), "both ports have five digits"
        while True:
            size = await broker.readexactly(4)
            frame = size + await broker.readexactly(int.from_bytes(size, "big"))
            command = frame[9]  # behind two sizes and the tag of the first field, which is the command's type
            if command == _MESSAGE and self._holding:
                self._held.append((answers, frame))
                continue
            answers.write(frame.replace(theirs, ours) if command == _LOOKUP_RESPONSE else frame)
            await answers.drain()
