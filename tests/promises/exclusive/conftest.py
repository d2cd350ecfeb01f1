"""Three sidecars that share a log, on a broker that soon notices when one of them does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.promises.api import Api, Refused
from tests.promises.server_process import ServerProcess

from .raw_log import RawLog

SIDECARS = 3
TOPICS = 3
SESSION_SECONDS = 2
"""The broker's ``keepAliveIntervalSeconds``: a client that has not answered for one to two of these intervals loses its session."""


class Cluster:
    """The sidecars, and the log that they write."""

    def __init__(self, broker: Broker, servers: list[ServerProcess], namespace: str, raw: RawLog) -> None:
        self.broker = broker
        self.servers = servers
        self.namespace = namespace
        self.raw = raw

    @property
    def targets(self) -> list[str]:
        """The addresses of all sidecars."""
        return [server.address for server in self.servers]

    @property
    def topics(self) -> list[str]:
        """The full names of the topics in the namespace."""
        return [f"persistent://{self.namespace}/t-{number}" for number in range(TOPICS)]

    async def leader(self, after: str = "") -> ServerProcess:
        """Returns the sidecar that has announced itself last, once that is another one than ``after``."""
        async with asyncio.timeout(60):
            while (address := self.raw.leader) in ("", after):  # noqa: ASYNC110 - another thread reads
                await asyncio.sleep(0.01)
        return next(server for server in self.servers if server.address == address)

    async def compact(self) -> None:
        """Compacts all partitions of the log, and waits until that is done."""
        with self.broker.admin() as admin:
            await asyncio.to_thread(admin.compact_change_events, self.namespace)

    async def start(self, server: ServerProcess) -> None:
        """Starts a sidecar, and waits until it has loaded the namespace, which it can lead from then on."""
        await server.start()
        async with asyncio.timeout(60), Api(server.address) as api:
            while True:  # a busy broker may not answer in time; the server then answers UNAVAILABLE, and clients repeat
                try:
                    await api.get(self.topics[0])
                except Refused as error:
                    if error.code != "UNAVAILABLE":
                        raise
                    await asyncio.sleep(0.1)
                else:
                    return


@pytest.fixture(scope="package")
def quick_broker() -> Iterator[Broker]:
    """A broker with short sessions, shared by the tests of this folder.

    It does not compact by itself: a request id whose event was compacted away is remembered for 16 more requests of its key only, and a
    client that waited for a suspended leader repeats its request later than that.
    """
    settings = {"keepAliveIntervalSeconds": str(SESSION_SECONDS), "brokerServiceCompactionMonitorIntervalInSeconds": "3600"}
    broker = OwnBroker(settings=settings, heap_mb=600)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@pytest.fixture(params=[pytest.param(0, id="plain"), pytest.param(3, id="3-partitions")])
async def cluster(request: pytest.FixtureRequest, quick_broker: Broker, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Running sidecars with an empty log."""
    with quick_broker.admin() as admin:
        namespace = admin.create_namespace("exclusive")
        if request.param:
            admin.partition_change_events(namespace, request.param)
        for number in range(TOPICS):
            admin.create_topic(f"{namespace}/t-{number}")
    raw = RawLog(quick_broker.service_url, namespace, request.param)
    options = ["--pulsar", quick_broker.service_url, "--admin-url", quick_broker.admin_url, "--writer", "exclusive"]
    servers = [ServerProcess(options, tmp_path / f"server-{number}.log") for number in range(SIDECARS)]
    made = Cluster(quick_broker, servers, namespace, raw)
    try:
        await asyncio.gather(*map(made.start, servers))
        yield made
    finally:
        for server in servers:
            server.kill()
        raw.close()
