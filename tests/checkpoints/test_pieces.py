"""A checkpoint is copied, written and read in pieces, none of which blocks the event loop or the interpreter for long."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from topicpolicies_server.checkpoints.file import Row
from topicpolicies_server.core.fold.keystate import Superseded
from topicpolicies_server.core.reading.cell import name_of

from .server import NEVER, Server, a_key, loaded_from, ready
from .test_restarts import view_of


async def test_cells_that_are_not_settled_are_copied_in_turns_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most, keys = 20_000, 30
    server = Server(tmp_path, NEVER._replace(bytes_at_once=most))
    async with server.running(killed=True) as registry:
        for number in range(keys):
            await server.set(registry, a_key(number), 1)
        for number in range(keys):  # so that each cell is large
            state = view_of(registry).state(a_key(number))
            assert state is not None
            state.older = [Superseded({"max_producer_per_topic": b"x" * 400}, 1, "") for _ in range(17)]
        assert server.checkpoints is not None
        store = server.checkpoints._store
        add, turns = store.add, []

        def added(rows: Sequence[Row], gone: Sequence[str]) -> None:
            turns.append([len(row.cell) for row in rows])
            add(rows, gone)

        monkeypatch.setattr(store, "add", added)
        await server.keep()
    assert sum(map(len, turns)) == keys and len(turns) > 1
    assert all(sum(turn[:-1]) < most for turn in turns), turns


async def test_requests_are_stored_in_rows_of_at_most_256(tmp_path: Path) -> None:
    server, count = Server(tmp_path), 700
    results = {}
    async with server.running(killed=True) as registry:
        for number in range(count):
            results[number] = await server.set(registry, a_key(number % 3), number, f"the request {number}")
        await server.keep()
        more = await server.set(registry, a_key(1), 5, "one more")
        await server.keep()
    connection = sqlite3.connect(server.file)
    rows = [len(row.split(b"],[")) for (row,) in connection.execute("SELECT requests FROM requests ORDER BY number")]
    connection.close()
    assert sum(rows) == count + 1 and max(rows) <= 256 and rows[-1] == 1
    async with server.running() as registry:
        await ready(registry)
        assert loaded_from(registry) == "checkpoint"
        for number, first in results.items():
            again = await server.set(registry, a_key(number % 3), number, f"the request {number}")
            assert (again.replayed, again.version) == (True, first.version)
        assert (await server.set(registry, a_key(1), 5, "one more")).version == more.version


async def test_requests_that_could_not_be_written_are_in_the_next_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(tmp_path)
    async with server.running(killed=True) as registry:
        await server.set(registry, a_key(1), 1, "the first")
        await server.keep()
        assert server.checkpoints is not None
        store = server.checkpoints._store

        def full(*_: object, **__: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        for number in range(600):
            await server.set(registry, a_key(1), number, f"the request {number}")
        with monkeypatch.context() as full_disk:
            full_disk.setattr(store, "commit", full)
            await server.keep()
        assert view_of(registry).recent.find(a_key(1), "the request 0") is not None
        await server.keep()
        expected = [request for _, request in view_of(registry).recent.newest(1_000)]
    async with server.running() as registry:
        await ready(registry)
        assert loaded_from(registry) == "checkpoint"
        assert [request for _, request in view_of(registry).recent.newest(1_000)] == expected
        assert name_of(a_key(1)) in view_of(registry).names()
