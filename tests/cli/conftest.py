"""The command line, and a service for it to talk to, which breaks on request."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.client.fault_service import FaultService, serving
from topicpolicies_server.cli.app import app

A = "public/a"
TOPIC = f"persistent://{A}/orders"


class Background:
    """The service on an event loop in a thread, so that commands may block."""

    def __init__(self) -> None:
        self.service = FaultService(A, "public/b")
        self.address = ""
        self.loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(20)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive()

    def write(self, namespace: str, local: str, value: int | None) -> None:
        """Writes into the logs that watches follow."""
        done = threading.Event()

        def write() -> None:
            self.service.write(namespace, local, value)
            done.set()

        self.loop.call_soon_threadsafe(write)
        assert done.wait(20)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with serving(self.service) as address:
            self.address = address
            self._ready.set()
            await self._stop.wait()


@pytest.fixture
def background() -> Iterator[Background]:
    background = Background()
    background.start()
    yield background
    background.stop()


@pytest.fixture
def service(background: Background) -> FaultService:
    return background.service


class Terminal:
    """Runs commands as a terminal would, against the service."""

    def __init__(self, address: str) -> None:
        self.environment = {"TOPICPOLICIES_SERVER": address, "TOPICPOLICIES_ACTOR": "tests", "TERM": "dumb", "COLUMNS": "200"}

    def run(self, *arguments: str) -> Result:
        return CliRunner(env=self.environment).invoke(app, list(arguments))

    def json(self, *arguments: str) -> Any:
        """Runs a command that must succeed; gives its one JSON document."""
        result = self.run(*arguments, "--output", "json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def failing(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """Runs a command that must fail; gives its exit code and its error."""
        result = self.run(*arguments, "--output", "json")
        assert result.exit_code != 0, result.output
        return result.exit_code, json.loads(result.stderr)["error"]


@pytest.fixture
def terminal(background: Background) -> Terminal:
    return Terminal(background.address)
