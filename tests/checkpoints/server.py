"""A server with its embedded log and its checkpoints in a folder, which tests stop, kill and start again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.core.views import heads_of
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.checkpoints import Checkpoints, Pace
from topicpolicies_server.checkpoints.file import path_of
from topicpolicies_server.config import Limits
from topicpolicies_server.core.chains.request import Request, Result
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.history import Bounds, open_history
from topicpolicies_server.logs.sqlite import Compaction, SqliteLog
from topicpolicies_server.namespaces.registry import Registry

NAMESPACE = "acme/orders"
NEVER = Pace(seconds=1_000_000.0, last_events=1)
"""Checkpoints are made only when a namespace is closed, or when a test calls ``Server.keep``."""


def a_key(number: int, scope: Scope = Scope.LOCAL) -> PolicyKey:
    return PolicyKey(f"persistent://{NAMESPACE}/topic-{number}", scope)


class Server:
    """The files of a server in a folder, and the server itself while it is running."""

    def __init__(self, folder: Path, pace: Pace = NEVER, *, history: bool = False, compaction: Compaction | None = None) -> None:
        self.folder = folder
        self.pace = pace
        self.now = 1_700_000_000_000
        self.checkpoints: Checkpoints | None = None
        self.registry: Registry | None = None
        self._history = history
        self._compaction = compaction or Compaction(interval_seconds=3_600.0)
        self._number = 0

    @property
    def kept(self) -> Path:
        """The directory of checkpoints."""
        return self.folder / "policies.checkpoints"

    @property
    def file(self) -> Path:
        """The file of the namespace's checkpoint."""
        return path_of(self.kept, NAMESPACE)

    @asynccontextmanager
    async def running(self, *, killed: bool = False, **limits: Any) -> AsyncIterator[Registry]:
        """Runs the server for the block; ``killed``: checkpoints are closed first, so that none is made at the end."""
        log = SqliteLog(self.folder / "policies.db", compaction=self._compaction, now=lambda: self.now)
        await log.start()
        self.log = log
        history = open_history(self.folder / "history.db", Bounds(366 * 86_400.0, 1 << 30)) if self._history else None
        self.checkpoints = Checkpoints(self.kept, self.pace)
        self.registry = registry = Registry(
            log,
            Limits(**limits),
            FoldContext(sole_writer=True),
            history=history,
            checkpoints=self.checkpoints,
            now=lambda: self.now,
        )
        try:
            yield registry
        finally:
            if killed:
                await self.checkpoints.close()
            await registry.close()
            await log.close()
            if history is not None:
                await history.close()
            await self.checkpoints.close()

    async def keep(self) -> None:
        """Writes the checkpoint of each namespace now."""
        assert self.registry is not None
        for namespace in self.registry.namespaces():
            await namespace.save(1, 10)

    async def set(self, registry: Registry, key: PolicyKey, value: int, request_id: str = "", **rest: Any) -> Result:
        self._number += 1
        change = compile_change(TopicPolicies(max_producer_per_topic=value), ["max_producer_per_topic"], {})
        request = Request(key, change, request_id or f"request-{self._number}-{value}", f"the body of {value}", **rest)
        return await registry.get(NAMESPACE).update(request)

    async def delete(self, registry: Registry, key: PolicyKey, request_id: str = "") -> Result:
        self._number += 1
        return await registry.get(NAMESPACE).update(Request(key, None, request_id or f"request-{self._number}", "a deletion"))


def loaded_from(registry: Registry) -> str:
    """Returns what the namespace was loaded from: "checkpoint" or "log"."""
    follower = registry.get(NAMESPACE).served
    assert follower is not None and follower.log is not None
    return "checkpoint" if follower.log.resumed else "log"


def view_of(registry: Registry) -> View:
    """Returns the view that answers."""
    follower = registry.get(NAMESPACE).served
    assert follower is not None
    return follower.view


def shown(view: View) -> dict[object, object]:
    """Returns the heads of a view by key, in the order of their last change."""
    return {head.key: (head.document, head.version, head.previous, head.position) for head in heads_of(view)}


async def filled(server: Server, keys: int = 5) -> dict[object, object]:
    """Writes some documents and, at the stop, a checkpoint of them; returns what was served."""
    async with server.running() as registry:
        for number in range(keys):
            await server.set(registry, a_key(number), number + 1)
        return shown(view_of(registry))


async def started(server: Server) -> tuple[str, dict[object, object]]:
    """Starts the server; returns what it was loaded from and what it serves."""
    async with server.running() as registry:
        await ready(registry)
        return loaded_from(registry), shown(view_of(registry))


async def ready(registry: Registry) -> None:
    """Waits until the namespace is loaded."""
    async with asyncio.timeout(100):
        await registry.get(NAMESPACE).ready()
