"""Which keeper writes a namespace's checkpoint: a late write of an ended keeper does not damage the checkpoint of the next one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from topicpolicies_server.checkpoints.store import Overtaken, Store
from topicpolicies_server.namespaces.registry import Registry

from .server import NAMESPACE, Server, a_key, loaded_from, ready
from .test_restarts import shown, view_of
from .test_stuck import SOON, stuck
from .test_trouble import started


async def closed(registry: Registry) -> None:
    """Closes the namespace as an idle one is closed, and waits for it."""
    registry._drop(registry.get(NAMESPACE))
    async with asyncio.timeout(20):
        while NAMESPACE in registry._closing:  # noqa: ASYNC110 (nothing to wait on)
            await asyncio.sleep(0.01)


async def test_a_copy_that_outlives_its_namespaces_close_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(tmp_path, SOON)
    async with server.running() as registry:
        await server.set(registry, a_key(1), 1)
        await server.keep()
        assert server.checkpoints is not None
        (former,) = server.checkpoints._keepers
        await server.set(registry, a_key(1), 2)
        with stuck(server, monkeypatch) as came:
            moving = asyncio.create_task(server.checkpoints._move(former))
            assert await asyncio.to_thread(came.wait, 20)
            await closed(registry)
            await ready(registry)
            assert loaded_from(registry) == "checkpoint"
            await server.set(registry, a_key(1), 3)
        async with asyncio.timeout(20):
            await moving
        (keeper,) = server.checkpoints._keepers
        await server.keep()
        assert server.checkpoints._failures == 0 and not keeper.has_news, "the first checkpoint of the new keeper was written"
        before = shown(view_of(registry))
    assert (await started(server)) == ("checkpoint", before)


async def test_a_checkpoint_committed_late_by_a_former_keeper_is_not_used_as_a_base(tmp_path: Path) -> None:
    """The disk delays the commit of an ended keeper until the next one has restored the checkpoint before."""
    server = Server(tmp_path)
    async with server.running() as registry:
        await server.set(registry, a_key(1), 1)
    async with server.running() as registry:
        await ready(registry)
        assert loaded_from(registry) == "checkpoint" and server.checkpoints is not None
        store = server.checkpoints._store
        with store.read(NAMESPACE) as stored:
            assert stored is not None
            header = stored.header
        store.begin(NAMESPACE, header.id)
        store.commit(header._replace(id="of a former life"))
        await server.set(registry, a_key(1), 2)
        await server.keep()
        assert from_file(store, NAMESPACE) == "of a former life", "a checkpoint whose base was replaced is not written"
        await server.keep()
        assert from_file(store, NAMESPACE) != "of a former life"
        assert server.checkpoints._failures == 0
        before = shown(view_of(registry))
    assert (await started(server)) == ("checkpoint", before)


def from_file(store: Store, name: str) -> str:
    """Returns the id of the checkpoint in the file."""
    with store.read(name) as stored:
        assert stored is not None
        return stored.header.id


async def test_a_checkpoint_can_only_be_begun_on_the_base_that_it_names(tmp_path: Path) -> None:
    server = Server(tmp_path)
    async with server.running(killed=True) as registry:
        await server.set(registry, a_key(1), 1)
        await server.keep()
        assert server.checkpoints is not None
        store = server.checkpoints._store
        with pytest.raises(Overtaken):
            store.begin(NAMESPACE, "another")
        store.give_up()
        store.begin(NAMESPACE, from_file(store, NAMESPACE))
        store.give_up()
        with pytest.raises(Overtaken):
            store.begin("acme/others", "another")
        store.give_up()
