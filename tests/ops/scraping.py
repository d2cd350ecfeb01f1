"""A server that exposes its metrics, and a scrape of them."""

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

from tests.plain_http import NO_TLS
from tests.stubs import AsyncStub, async_stub
from topicpolicies_server.config import (
    AccessLogConfig,
    EmbeddedLogConfig,
    HistoryConfig,
    Limits,
    ServerConfig,
    parse_address,
)
from topicpolicies_server.rpc.server import Server

PATIENCE = 100.0
TOPIC = "persistent://public/default/orders"


class Scrape:
    """The metrics of one moment."""

    def __init__(self, text: str) -> None:
        self.families: dict[str, Metric] = {family.name: family for family in text_string_to_metric_families(text)}
        self._samples = [sample for family in self.families.values() for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """Returns the sum of all samples of a name that have these labels, with any others."""
        return sum(each.value for each in self._samples if each.name == name and labels.items() <= each.labels.items())

    def labels(self, name: str) -> list[dict[str, str]]:
        """Returns the labels of all samples of a name."""
        return [each.labels for each in self._samples if each.name == name]

    @property
    def names(self) -> set[str]:
        """The names that queries may use: of counters and histograms those of their series."""
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count"), "info": ("_info",)}
        return {name + suffix for name, family in self.families.items() for suffix in suffixes.get(family.type, ("",))}


class Shown:
    """A running server, and a stub of it."""

    def __init__(self, server: Server, stub: AsyncStub) -> None:
        self.server = server
        self.stub = stub

    async def scrape(self) -> Scrape:
        """Returns the present metrics."""
        address = self.server.metrics_address
        assert address is not None
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE, verify=NO_TLS) as client:
            answer = await client.get(f"http://{address}/metrics")
        assert answer.status_code == 200
        return Scrape(answer.text)

    async def until(self, name: str, value: float, **labels: str) -> Scrape:
        """Waits until a metric has a value, and returns the metrics of then."""
        return await self.until_it(lambda scrape: scrape.value(name, **labels) == value)

    async def until_more(self, name: str, value: float, **labels: str) -> Scrape:
        """Waits until a metric is greater than a value, and returns the metrics of then."""
        return await self.until_it(lambda scrape: scrape.value(name, **labels) > value)

    async def until_it(self, holds: Callable[[Scrape], bool]) -> Scrape:
        """Waits until this holds for the metrics, and returns them."""
        async with asyncio.timeout(PATIENCE):
            while not holds(scrape := await self.scrape()):  # noqa: ASYNC110 - metrics can only be polled
                await asyncio.sleep(0.05)
        return scrape


@asynccontextmanager
async def showing(path: Path) -> AsyncIterator[Shown]:
    """Runs a server with the embedded log and all that can be used with it; ``path``: a folder for its files."""
    config = ServerConfig(
        log=EmbeddedLogConfig(path=path / "policies.db"),
        listen=parse_address("127.0.0.1:0"),
        metrics_listen=parse_address("127.0.0.1:0"),
        history=HistoryConfig(path=path / "history.db"),
        access_log=AccessLogConfig(path=path / "calls.log"),
        checkpoints=path / "checkpoints",
        limits=replace(Limits(), bookmark_interval_seconds=1.0, drain_seconds=2.0),
    )
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
        yield Shown(server, async_stub(channel))
