"""A disk that blocks the writer blocks nothing else, and repeated failures do not end the writing of checkpoints."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from topicpolicies_server.checkpoints import Pace

from .server import NEVER, Server, a_key, ready
from .test_restarts import shown, view_of
from .test_trouble import started

SOON = NEVER._replace(last_seconds=0.2)


@contextmanager
def stuck(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Blocks the writing of cells until the block ends; yields an event that is set once some are to be written."""
    assert server.checkpoints is not None
    store = server.checkpoints._store
    add, came, gate = store.add, threading.Event(), threading.Event()

    def add_later(*args: Any) -> None:
        came.set()
        gate.wait()
        add(*args)

    monkeypatch.setattr(store, "add", add_later)
    try:
        yield came
    finally:
        gate.set()


async def test_a_namespace_closes_in_time_although_its_last_checkpoint_is_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(tmp_path, SOON)
    async with server.running() as registry:
        await server.set(registry, a_key(1), 1)
        assert server.checkpoints is not None
        (keeper,) = server.checkpoints._keepers
        with stuck(server, monkeypatch) as came:
            async with asyncio.timeout(20):
                await server.checkpoints.finish(keeper)
            assert came.is_set()
        server.checkpoints.keep(keeper)
        await server.keep()
        assert not keeper.has_news, "the stuck checkpoint was given up, and the next one was written after it"
        before = shown(view_of(registry))
    assert (await started(server)) == ("checkpoint", before)


async def test_the_file_is_closed_in_time_although_a_checkpoint_is_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(tmp_path, Pace(seconds=0.0, looks_seconds=0.01, last_seconds=0.2))
    async with server.running() as registry:
        await server.set(registry, a_key(1), 1)
        assert server.checkpoints is not None
        with stuck(server, monkeypatch) as came:
            await server.set(registry, a_key(2), 2)
            assert await asyncio.to_thread(came.wait, 20)
            async with asyncio.timeout(20):
                await server.checkpoints.close()
    async with server.running() as registry:
        await ready(registry)
        assert len(shown(view_of(registry))) == 2


async def test_many_consecutive_failures_do_not_end_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause after each failure doubles up to a bound, which must not overflow after any number of failures."""
    server = Server(tmp_path, Pace(seconds=1e-9, looks_seconds=0.0, longest_pause_seconds=1e-6))

    def full(*_: Any, **__: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async with server.running() as registry:
        assert server.checkpoints is not None
        monkeypatch.setattr(server.checkpoints._store, "begin", full)
        await server.set(registry, a_key(1), 1)
        async with asyncio.timeout(20):
            while server.checkpoints._failures < 1_100 and not server.checkpoints._moving.failures:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert server.checkpoints._moving.failures == 0, server.checkpoints._moving.problem
