"""A server for the programs of all languages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.promises.server_process import ServerProcess


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    """A server on an embedded log."""
    process = ServerProcess(["--data", str(tmp_path / "policies.db")], tmp_path / "server.log")
    await process.start()
    yield process
    process.kill()
