"""The names of changed keys, and the requests, that are kept for the next checkpoint are bounded; a namespace without keys has none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from topicpolicies_server.checkpoints import Keeper
from topicpolicies_server.checkpoints import keeper as keeping
from topicpolicies_server.checkpoints.requests import Rows

from .server import NAMESPACE, Server, a_key, ready


def gone(keeper: Keeper) -> dict[str, None] | None:
    """Returns the names of forgotten keys that the view keeps for its keeper; None: it keeps none."""
    assert keeper.kept is not None
    return keeper.kept.view.gone


async def test_names_of_forgotten_keys_are_not_kept_before_the_first_checkpoint(tmp_path: Path) -> None:
    server = Server(tmp_path)
    async with server.running(killed=True) as registry:
        await server.set(registry, a_key(1), 1)
        assert server.checkpoints is not None
        (keeper,) = server.checkpoints._keepers
        assert gone(keeper) is None, "every key is copied anyway"
        await server.keep()
        assert gone(keeper) == {}
        keeper.start_over()
        assert gone(keeper) is None


async def test_a_namespace_that_has_nothing_has_no_checkpoint(tmp_path: Path) -> None:
    server = Server(tmp_path)
    async with server.running() as registry:
        for number in range(20):
            await registry.get(f"acme/nothing-{number}").ready()
        await ready(registry)
        await server.keep()
        assert server.checkpoints is not None
        assert server.checkpoints.behind_seconds() == 0.0
        assert server.checkpoints.written == 0
        await server.set(registry, a_key(1), 1)
        assert 0.0 < server.checkpoints.behind_seconds() < 10.0
    with closing(sqlite3.connect(server.file)) as connection:
        assert connection.execute("SELECT name FROM namespaces").fetchall() == [(NAMESPACE,)]


async def test_names_of_changed_keys_are_bounded_while_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_NAMES", 10, raising=False)
    server = Server(tmp_path)

    def full(*_: Any, **__: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async with server.running(killed=True) as registry:
        await server.set(registry, a_key(0), 1)
        await server.keep()
        assert server.checkpoints is not None
        (keeper,) = server.checkpoints._keepers
        assert keeper.kept is not None
        keeper.kept.view._absences = 3
        monkeypatch.setattr(server.checkpoints._store, "begin", full)
        for number in range(1, 101):
            await server.set(registry, a_key(number), 1)
            await server.delete(registry, a_key(number))
            server.now += 10_000_000
            if number % 20 == 0:
                await server.keep()
        assert len(keeper._changed) <= max(2 * len(keeper.kept.view), 10)


def test_rows_of_requests_are_dropped_only_once_the_view_has_forgotten_them() -> None:
    rows = Rows((number, 1) for number in range(40_000))
    assert rows.first(32_768) == 40_000 - 32_768
    assert rows.first(5_000) == 35_000 and len(rows) == 5_000
