"""What the embedded log has of a deleted key after a compaction and a restart: its requests and version for a day, then nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import Limits
from topicpolicies_server.core.chains.request import Outcome, Request, Result
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.sqlite import Compaction, SqliteLog
from topicpolicies_server.namespaces.registry import Registry

NAMESPACE = "acme/orders"
KEY = PolicyKey(f"persistent://{NAMESPACE}/invoices", Scope.LOCAL)
HOUR = 3_600_000


class Server:
    """A server with an embedded log in a file, and a clock that tests set."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.now = 1_700_000_000_000

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Registry]:
        """Runs the server for the block."""
        self.log = SqliteLog(
            self._path, compaction=Compaction(retention_ms=0, minimum=1, interval_seconds=3_600, pause_seconds=0), now=lambda: self.now
        )
        await self.log.start()
        registry = Registry(self.log, Limits(), FoldContext(sole_writer=True), now=lambda: self.now)
        try:
            yield registry
        finally:
            await registry.close()
            await self.log.close()


async def ask(registry: Registry, request_id: str, *, value: int | None = None, version: str = "") -> Result:
    """Sets a value; without one, deletes the document."""
    change = None if value is None else compile_change(TopicPolicies(max_producer_per_topic=value), ["max_producer_per_topic"], {})
    return await registry.get(NAMESPACE).update(Request(KEY, change, request_id, f"the body of {request_id}", version=version))


async def made_deleted_and_compacted(server: Server) -> tuple[Result, Result]:
    """Creates and deletes a key, and compacts the log until the key's tombstone is the only event."""
    async with server.running() as registry:
        made, deleted = await ask(registry, "made", value=1), await ask(registry, "deleted")
        gone = 0
        async with asyncio.timeout(20):
            while gone < 2:  # the update, and the deletion once the tombstone after it was written
                server.now += 1_000
                gone += await server.log.compact(NAMESPACE)
                await asyncio.sleep(0.005)
    return made, deleted


@pytest.mark.parametrize("hours", [0, 22])
async def test_for_a_day_the_requests_and_the_version_of_a_deleted_key_are_known(tmp_path: Path, hours: int) -> None:
    server = Server(tmp_path / "policies.db")
    made, deleted = await made_deleted_and_compacted(server)
    server.now += hours * HOUR
    async with server.running() as registry:
        await server.log.compact(NAMESPACE)
    async with server.running() as registry:
        for request_id, value, first in (("made", 1, made), ("deleted", None, deleted)):
            again = await ask(registry, request_id, value=value)
            assert (again.replayed, again.version) == (True, first.version)
        view = registry.get(NAMESPACE).view
        assert view is not None and view.version(KEY) == deleted.version
        anew = await ask(registry, "anew", value=2, version=deleted.version)
        assert anew.outcome is Outcome.APPLIED


async def test_after_a_day_nothing_is_known_of_a_deleted_key(tmp_path: Path) -> None:
    server = Server(tmp_path / "policies.db")
    _, deleted = await made_deleted_and_compacted(server)
    server.now += 25 * HOUR
    async with server.running() as registry:
        assert await server.log.compact(NAMESPACE) == 1
    async with server.running() as registry:
        with pytest.raises(PolicyError) as conflict:
            await ask(registry, "anew", value=2, version=deleted.version)
        assert conflict.value.reason is Reason.PRECONDITION_FAILED
        made = await ask(registry, "made", value=1)
        assert (made.outcome, made.replayed, made.previous) == (Outcome.APPLIED, False, "0")
