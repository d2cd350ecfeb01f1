"""A start from a checkpoint continues where the server was: the same view, requests and tokens as a start that reads the whole log."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.core.views import heads_of
from topicpolicies_server.checkpoints import Pace
from topicpolicies_server.core.fold.keystate import KeyState
from topicpolicies_server.core.reading.cell import name_of
from topicpolicies_server.core.reading.log_order import LogOrder
from topicpolicies_server.core.reading.tokens import Mode, OutOfRange, Selection
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.namespaces.registry import Registry

from .server import NAMESPACE, Server, a_key, filled, loaded_from, ready, shown, started, view_of


async def test_after_a_stop_the_view_is_restored_without_reading_the_log_again(tmp_path: Path) -> None:
    server = Server(tmp_path)
    async with server.running() as registry:
        for number in range(5):
            await server.set(registry, a_key(number), number + 1)
        await server.set(registry, a_key(2), 9)
        await server.delete(registry, a_key(3))
        before, number = shown(view_of(registry)), view_of(registry).number
    async with server.running() as registry:
        await ready(registry)
        assert loaded_from(registry) == "checkpoint"
        assert shown(view_of(registry)) == before and list(shown(view_of(registry))) == list(before)
        assert view_of(registry).number == number
        await server.set(registry, a_key(2), 10)
        assert view_of(registry).number == number + 1


async def test_after_a_kill_events_since_the_checkpoint_are_read_from_the_log(tmp_path: Path) -> None:
    server = Server(tmp_path)
    async with server.running(killed=True) as registry:
        await server.set(registry, a_key(1), 1)
        await server.set(registry, a_key(2), 2)
        await server.keep()
        await server.set(registry, a_key(2), 3)
        await server.set(registry, a_key(3), 4)
        before = shown(view_of(registry))
    async with server.running() as registry:
        await ready(registry)
        assert loaded_from(registry) == "checkpoint"
        assert shown(view_of(registry)) == before


async def test_retries_of_all_requests_are_replayed_after_restarts_from_a_checkpoint(tmp_path: Path) -> None:
    server = Server(tmp_path)
    results = {}
    async with server.running() as registry:
        for number in range(40):  # more than an event carries
            results[number] = await server.set(registry, a_key(1), number, f"the request {number}")
    for _ in range(2):
        async with server.running() as registry:
            for number, first in results.items():
                again = await server.set(registry, a_key(1), number, f"the request {number}")
                assert (again.replayed, again.version) == (True, first.version)
            assert loaded_from(registry) == "checkpoint"


async def test_tokens_from_before_a_restart_are_resumed_or_refused_as_without_a_checkpoint(tmp_path: Path) -> None:
    server = Server(tmp_path)
    async with server.running() as registry:
        await server.set(registry, a_key(1), 1)
        hub = registry.get(NAMESPACE).hub
        assert hub is not None
        token = hub.token
        await server.set(registry, a_key(2), 2)
        await server.delete(registry, a_key(1))
        later = hub.token
    async with server.running() as registry:
        await ready(registry)
        hub = registry.get(NAMESPACE).hub
        assert hub is not None and loaded_from(registry) == "checkpoint"
        assert hub.token.log == later.log and hub.token.reaches(later)
        assert [head.key for head in hub.changed_since(token) or ()] == [a_key(2), a_key(1)]
        hub.subscribe(Selection(None), Mode.LATEST, token, lambda: None)
        with pytest.raises(OutOfRange):
            hub.subscribe(Selection(None), Mode.LATEST, token._replace(positions=("3fff",)), lambda: None)


async def test_a_checkpoint_is_written_in_time_if_enough_changed(tmp_path: Path) -> None:
    server = Server(tmp_path, Pace(seconds=0.02, events=10, share=0.5, last_events=1_000))
    async with server.running() as registry:
        assert server.checkpoints is not None
        for number in range(9):
            await server.set(registry, a_key(number), 1)
        await asyncio.sleep(0.2)
        assert server.checkpoints.written == 0
        for number in range(9, 40):
            await server.set(registry, a_key(number), 1)
        follower = registry.get(NAMESPACE).served
        assert follower is not None
        while follower.unsaved:  # one that was begun before may be written meanwhile
            await server.keep()
        written = server.checkpoints.written
        assert written
        for number in range(19):
            await server.set(registry, a_key(number), 2)
        await asyncio.sleep(0.2)
        assert server.checkpoints.written == written, "less than half of 40 keys changed"
        await server.set(registry, a_key(1), 3)
        async with asyncio.timeout(100):
            while server.checkpoints.written == written:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await server.set(registry, a_key(1), 4)
        before = shown(view_of(registry))
    assert server.checkpoints.written == written + 1, "one event is not enough at the end"
    assert await started(server) == ("checkpoint", before)


async def test_what_the_logs_reader_has_not_confirmed_is_in_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(tmp_path)
    await filled(server)
    found = server.file.read_bytes()
    async with server.running() as registry:
        await server.set(registry, a_key(1), 7)
        monkeypatch.setattr(LogOrder, "is_read", lambda self, positions: False)
    assert server.file.read_bytes() == found


def all_of(view: View) -> dict[str, object]:
    """Returns the state of a view that matters: heads in their order, the state of each key, and the recent requests."""
    found: dict[str, object] = {}
    for head in heads_of(view):
        state = view.state(head.key)
        assert state is not None
        slots = {name: plain(getattr(state, name)) for name in KeyState.__slots__}
        found[name_of(head.key)] = plain(head.document), head.version, head.position, slots
    found["recent"] = view.copy().requests
    return found


def plain(value: object) -> object:
    """Returns a mapping of any kind as a dictionary, and other values as they are."""
    return dict(value) if isinstance(value, Mapping) else value


async def live(server: Server, chance: random.Random, registry: Registry, counts: Counter[str]) -> None:
    """Makes some random changes, and checkpoints at the same time."""
    writing: asyncio.Task[None] | None = None
    for _ in range(chance.randrange(25)):
        key = a_key(chance.randrange(6))
        if chance.random() < 0.2:
            await server.delete(registry, key)
        else:
            await server.set(registry, key, chance.randrange(1_000))
        if chance.random() < 0.3 and (writing is None or writing.done()):
            writing = asyncio.create_task(server.keep())
            counts["checkpoints"] += 1
            await asyncio.sleep(0)
    if writing is not None:
        if chance.random() < 0.5:
            writing.cancel()
        await asyncio.wait([writing])


async def from_the_log(server: Server, folder: Path) -> dict[str, object]:
    """Returns the state after a start without checkpoints."""
    shutil.copytree(server.folder, folder)
    other = Server(folder)
    shutil.rmtree(other.kept, ignore_errors=True)
    other.now = server.now
    async with other.running(killed=True) as registry:
        await ready(registry)
        return all_of(view_of(registry))


async def test_in_random_lives_each_start_has_the_same_state_as_one_from_the_log(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in range(8):
        chance, folder = random.Random(seed), tmp_path / str(seed)
        server = Server(folder / "server")
        server.folder.mkdir(parents=True)
        for life in range(4):
            expected = await from_the_log(server, folder / f"copy-{life}") if life else {}
            async with server.running(killed=chance.random() < 0.6) as registry:
                await ready(registry)
                if life:
                    counts[loaded_from(registry)] += 1
                    assert all_of(view_of(registry)) == expected
                await live(server, chance, registry, counts)
    assert counts["checkpoint"] > 8 and counts["checkpoints"] > 20, counts
