"""``topicpolicies guard`` in a process of its own, as an operator starts it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx

from tests.broker.pulsar_broker import Broker
from tests.ports import free_port
from tests.promises.shared.run import scrape

_ROOT = Path(__file__).parents[3]
_SECONDS = 60
_QUIET_SECONDS = 0.5


class Guarding:
    """A running guard."""

    def __init__(self, process: subprocess.Popen[bytes], metrics_at: str, output: Path) -> None:
        self.process = process
        self._metrics_at = metrics_at
        self._output = output

    async def metrics(self) -> dict[str, float]:
        """Returns its present metrics."""
        return await asyncio.to_thread(scrape, self._metrics_at)

    async def loaded(self, namespaces: int) -> None:
        """Returns when so many namespaces are guarded and loaded."""
        async with asyncio.timeout(_SECONDS):
            while True:
                assert self.process.poll() is None, self.lines()
                with contextlib.suppress(httpx.TransportError):
                    metrics = await self.metrics()
                    if metrics["guarded_namespaces"] >= namespaces and metrics.get("loads loaded", 0) >= namespaces:
                        return
                await asyncio.sleep(0.1)

    async def at_rest(self, wrong: Callable[[], int] = lambda: 0) -> None:
        """Returns when it has read nothing new for a while, and has nothing to heal.

        Args:
            wrong: returns of how many keys brokers show a wrong document, as far as the caller knows.
        """
        async with asyncio.timeout(2 * _SECONDS):
            before: dict[str, float] | None = None
            while True:
                metrics = await self.metrics()
                read = {name: value for name, value in metrics.items() if name.startswith(("events", "repairs"))}
                if read == before and metrics["repairs_due"] == 0 and not wrong():
                    return
                before = read
                await asyncio.sleep(_QUIET_SECONDS)

    def lines(self, word: str = "") -> list[str]:
        """Returns the lines that it logged, or those with a word."""
        return [line for line in self._output.read_text().splitlines() if word in line]


def launch(broker: Broker, output: Path, *arguments: str) -> Guarding:
    """Starts a guard of a broker's namespaces, which the caller must end; the arguments are patterns and options."""
    metrics_at = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "topicpolicies_server", "guard", *arguments]
    command += ["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--metrics-listen", metrics_at]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT / "server"), str(_ROOT / "clients/python")])}
    with output.open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    return Guarding(process, metrics_at, output)


@contextlib.asynccontextmanager
async def guarding(broker: Broker, output: Path, *arguments: str) -> AsyncIterator[Guarding]:
    """Runs a guard of a broker's namespaces; the arguments are patterns and options."""
    guard = launch(broker, output, *arguments)
    try:
        yield guard
        guard.process.terminate()
        assert await asyncio.to_thread(guard.process.wait, 30) == 0
    finally:
        guard.process.kill()
        guard.process.wait()
