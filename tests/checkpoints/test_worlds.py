"""Random runs of a server that is killed and stopped: a start from a checkpoint has the same state as a start from the log."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from topicpolicies_server.checkpoints.checkpoints import Checkpoints
from topicpolicies_server.checkpoints.keeper import Copy, Keeper
from topicpolicies_server.core.fold.keystate import KeyState
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.core.reading.cell import name_of
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.logs import rows
from topicpolicies_server.logs.change_log import anchor_of
from topicpolicies_server.namespaces.registry import Registry

from .server import NEVER, Server, a_key, loaded_from, ready
from .test_restarts import view_of
from .test_trouble import without

SLOW = NEVER._replace(cells_at_once=1)
"""Copies one cell in a turn of the event loop."""


def all_of(view: View) -> dict[str, object]:
    """Returns the state of a view that matters: heads in their order, the state of each key, and the recent requests."""
    found: dict[str, object] = {}
    for head in view.heads():
        state = view.state(head.key)
        assert state is not None
        slots = {name: plain(getattr(state, name)) for name in KeyState.__slots__}
        found[name_of(head.key)] = plain(head.document), head.version, head.place, slots
    found["recent"] = list(view.recent._requests.items())
    return found


def plain(value: object) -> object:
    """Returns a mapping of any kind as a dictionary, and other values as they are."""
    return dict(value) if isinstance(value, Mapping) else value


async def live(server: Server, chance: random.Random, registry: Registry, counts: Counter[str]) -> None:
    """Makes some random changes, and checkpoints at the same time."""
    copying: asyncio.Task[None] | None = None
    for _ in range(chance.randrange(25)):
        key = a_key(chance.randrange(6))
        if chance.random() < 0.2:
            await server.delete(registry, key)
        else:
            await server.set(registry, key, chance.randrange(1_000))
        if chance.random() < 0.3 and (copying is None or copying.done()):
            copying = asyncio.get_running_loop().create_task(server.keep())
            counts["checkpoints"] += 1
            await asyncio.sleep(0)
    if copying is not None:
        if chance.random() < 0.5:
            await copying
        else:
            counts["cut short"] += not copying.done()
            copying.cancel()
            await asyncio.wait([copying])


async def from_the_log(server: Server, folder: Path) -> dict[str, object]:
    """Returns the state after a start without checkpoints."""
    shutil.copytree(server.folder, folder)
    without(folder / server.file.name)
    other = Server(folder)
    other.now = server.now
    async with other.running(killed=True) as registry:
        await ready(registry)
        return all_of(view_of(registry))


async def world(folder: Path, seed: int, counts: Counter[str]) -> None:
    """Runs the server four times; each start from a checkpoint must have the state of a start from the log."""
    chance = random.Random(seed)
    server = Server(folder / "server", SLOW)
    server.folder.mkdir(parents=True)
    for life in range(4):
        expected = await from_the_log(server, folder / f"copy-{life}") if life else {}
        async with server.running(killed=chance.random() < 0.6) as registry:
            await ready(registry)
            if life:
                counts[loaded_from(registry)] += 1
                assert all_of(view_of(registry)) == expected
            await live(server, chance, registry, counts)


async def test_a_start_from_a_checkpoint_has_the_same_state_as_one_from_the_log(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in range(8):
        await world(tmp_path / str(seed), seed, counts)
    assert counts["checkpoint"] > 8 and counts["checkpoints"] > 20, counts


def claims_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plants a bug: a checkpoint claims one event more than it has, with the right anchor."""
    begin, took = Keeper.begin, Keeper.took
    noted: dict[str, Placed] = {}

    def began(keeper: Keeper) -> Copy | None:
        copy = begin(keeper)
        if copy is None or not copy.header.positions[0]:
            return copy
        further = rows.position_of(rows.row_of(copy.header.positions[0]) + 1)
        return copy._replace(header=copy.header._replace(positions=(further,), anchors=("",)))

    async def written(checkpoints: Checkpoints, keeper: Keeper, copy: Copy) -> None:
        await asyncio.sleep(0.02)
        there = noted.get(copy.header.positions[0])
        if there is not None:
            copy = copy._replace(header=copy.header._replace(anchors=(anchor_of(there),)))
        await write(checkpoints, keeper, copy)

    def noting(keeper: Keeper, events: list[Placed]) -> None:
        noted.update((placed.position, placed) for placed in events)
        took(keeper, events)

    write = Checkpoints._write
    monkeypatch.setattr(Keeper, "begin", began)
    monkeypatch.setattr(Keeper, "took", noting)
    monkeypatch.setattr(Checkpoints, "_write", written)


def copies_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plants a bug: a key that is about to change is not copied first."""
    monkeypatch.setattr(Keeper, "before", lambda keeper, events: None)


def forgets_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plants a bug: keys that change while a checkpoint is made are not in the next one."""
    took = Keeper.took
    monkeypatch.setattr(Keeper, "took", lambda keeper, events: None if keeper.copying else took(keeper, events))


@pytest.mark.parametrize("plant", [claims_too_far, copies_late, forgets_what_changed])
async def test_a_planted_bug_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(30):
            await world(tmp_path / str(seed), seed, Counter())
