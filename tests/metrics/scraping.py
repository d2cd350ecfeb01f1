"""A server that shows its metrics, and what is read of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import httpx
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.stubs import AsyncStub, async_stub
from topicpolicies_server.config import (
    CallRecordConfig,
    CheckpointsConfig,
    EmbeddedLogConfig,
    HistoryConfig,
    Limits,
    ServerConfig,
    parse_address,
)
from topicpolicies_server.rpc.server import Server

PATIENCE = 20.0
TOPIC = "persistent://public/default/orders"


class Scrape:
    """What was shown at one moment."""

    def __init__(self, text: str) -> None:
        self.families: dict[str, Metric] = {family.name: family for family in text_string_to_metric_families(text)}
        self._samples = [sample for family in self.families.values() for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """A sample, with these labels and any others; all such together."""
        return sum(each.value for each in self._samples if each.name == name and labels.items() <= each.labels.items())

    def labels(self, name: str) -> list[dict[str, str]]:
        """The labels of all samples of a name."""
        return [each.labels for each in self._samples if each.name == name]

    @property
    def names(self) -> set[str]:
        """What queries may name: of counters and histograms the series."""
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count"), "info": ("_info",)}
        return {name + suffix for name, family in self.families.items() for suffix in suffixes.get(family.type, ("",))}


class Shown:
    """A running server, and a client of it."""

    def __init__(self, server: Server, stub: AsyncStub) -> None:
        self.server = server
        self.stub = stub

    async def scrape(self) -> Scrape:
        """What it shows now."""
        address = self.server.metrics_address
        assert address is not None
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = await client.get(f"http://{address}/metrics")
        assert answer.status_code == 200
        return Scrape(answer.text)

    async def until(self, name: str, value: float, **labels: str) -> Scrape:
        """What it shows once that has a value."""
        return await self.until_it(lambda scrape: scrape.value(name, **labels) == value)

    async def until_more(self, name: str, value: float, **labels: str) -> Scrape:
        """What it shows once that is more than a value."""
        return await self.until_it(lambda scrape: scrape.value(name, **labels) > value)

    async def until_it(self, holds: Callable[[Scrape], bool]) -> Scrape:
        """What it shows once this holds."""
        async with asyncio.timeout(PATIENCE):
            while not holds(scrape := await self.scrape()):  # noqa: ASYNC110 - a scrape is another process's view
                await asyncio.sleep(0.05)
        return scrape


@asynccontextmanager
async def showing(path: Path) -> AsyncIterator[Shown]:
    """A server with everything that the embedded log has; ``path``: a folder for its files."""
    config = ServerConfig(
        log=EmbeddedLogConfig(path=path / "policies.db"),
        listen=parse_address("127.0.0.1:0"),
        metrics_listen=parse_address("127.0.0.1:0"),
        history=HistoryConfig(path=path / "history.db"),
        call_record=CallRecordConfig(path=path / "calls.log"),
        checkpoints=CheckpointsConfig(path=path / "checkpoints.db"),
        limits=replace(Limits(), bookmark_interval_seconds=1.0, drain_seconds=2.0),
    )
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
        yield Shown(server, async_stub(channel))
