"""The kinds of change logs that the conformance suite runs against.

To add a kind, write a ``Backend`` and a context manager that creates one, and add them to ``KINDS``. Mark the kinds that need a broker.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.logs import memory_backend, pulsar_backend, sqlite_backend
from tests.logs.backend import Backend

Factory: TypeAlias = Callable[[pytest.FixtureRequest, Path], AbstractAsyncContextManager[Backend]]
"""Creates a backend for one test; the path is an empty directory of that test."""

KINDS: list[tuple[str, Factory, tuple[pytest.MarkDecorator, ...]]] = [
    ("memory", memory_backend.three_partitions, ()),
    ("ledgered", memory_backend.in_ledgers_of_three, ()),
    ("sqlite", sqlite_backend.one_file, ()),
    ("pulsar", pulsar_backend.partitioned, (pytest.mark.broker,)),
]


@pytest.fixture(params=[pytest.param(factory, id=name, marks=marks) for name, factory, marks in KINDS])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    """Returns a new storage of each kind of change log."""
    factory: Factory = request.param
    async with factory(request, tmp_path) as made:
        yield made
