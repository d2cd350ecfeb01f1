"""The requests of ``api`` for tests that use threads: each waits for its answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from queue import Queue
from types import TracebackType
from typing import Any, Self, TypeVar

from .api import Api, Change, Delete, Document, Effective, Event, Refused, Update

T = TypeVar("T")
_SECONDS = 60


class BlockingApi:
    """One caller of a server, for any thread. Methods raise :class:`Refused`."""

    def __init__(self, address: str, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        """Does not connect yet."""
        self._api = Api(address, metadata=metadata)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._watches: list[Future[None]] = []

    def __enter__(self) -> Self:
        """Makes the channel."""
        self._thread.start()
        self._wait(self._api.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Ends all watches, and closes the channel."""
        self.stop()
        self._wait(self._api.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        self._loop.close()

    def update(self, topic: str, policies: Any = None, **options: Any) -> Change:
        """As ``Api.update``."""
        return self._wait(self._api.update(topic, policies, **options))

    def delete(self, topic: str, **options: Any) -> Change:
        """As ``Api.delete``."""
        return self._wait(self._api.delete(topic, **options))

    def patiently(self, change: Update | Delete, seconds: float = _SECONDS) -> Change:
        """Sends a change again and again, with its request id, while the server can't be reached or its log can't."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self._wait(self._api.send(change))
            except Refused as error:
                if error.code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED") or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def get(self, topic: str, scope: Any = None, at_least_version: str = "", timeout: float = 30.0) -> Document:
        """As ``Api.get``."""
        which = {} if scope is None else {"scope": scope}
        return self._wait(self._api.get(topic, at_least_version=at_least_version, timeout=timeout, **which))

    def effective(self, topic: str) -> Effective:
        """As ``Api.effective``."""
        return self._wait(self._api.effective(topic))

    def watch(self, **options: Any) -> Generator[Event, None, None]:
        """As ``Api.watch``; close the generator, or call ``stop`` in another thread, to end the watch."""
        events: Queue[Event | Refused | None] = Queue()
        watching = asyncio.run_coroutine_threadsafe(self._watch(events, options), self._loop)
        self._watches.append(watching)
        try:
            while (event := events.get()) is not None:
                if isinstance(event, Refused):
                    raise event
                yield event
        finally:
            watching.cancel()

    def stop(self) -> None:
        """Ends all watches."""
        for watching in self._watches:
            watching.cancel()

    async def _watch(self, events: Queue[Event | Refused | None], options: dict[str, Any]) -> None:
        try:
            async for event in self._api.watch(**options):
                events.put(event)
        except Refused as error:
            events.put(error)
        finally:
            events.put(None)

    def _wait(self, call: Coroutine[Any, Any, T], seconds: float | None = 4 * _SECONDS) -> T:
        waiting: Future[T] = asyncio.run_coroutine_threadsafe(call, self._loop)
        return waiting.result(seconds)
