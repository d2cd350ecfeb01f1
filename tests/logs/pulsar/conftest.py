"""Fixtures of the tests of the Pulsar log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.broker.admin import CHANGE_EVENTS, Admin
from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.logs.pulsar.foreign import ForeignWriter
from tests.logs.recorder import Recorder
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog, PulsarNamespaceLog

QUICK = PulsarLimits(creation_seconds=0.5, check_seconds=1.0, close_seconds=3.0)
"""Limits under which everything periodic happens often."""


@dataclass
class Following:
    """Opens logs of a broker; at the end, closes them and checks that no sink has complaints."""

    broker: Broker
    admin: Admin
    logs: list[PulsarLog] = field(default_factory=list)
    recorders: list[Recorder] = field(default_factory=list)
    writers: list[ForeignWriter] = field(default_factory=list)

    def start(self, **options: Any) -> PulsarLog:
        """Returns the change logs of one sidecar."""
        log = PulsarLog(self.broker.service_url, self.broker.admin_url, **{"limits": QUICK, **options})
        self.logs.append(log)
        return log

    async def open(self, namespace: str, change_log: PulsarLog | None = None) -> tuple[PulsarNamespaceLog, Recorder]:
        """Opens a namespace's log and waits until it has caught up."""
        recorder = Recorder()
        self.recorders.append(recorder)
        log = await (change_log or self.start()).open(namespace, recorder)
        await recorder.until_caught_up()
        return log, recorder

    def foreign(self) -> ForeignWriter:
        """Returns another writer."""
        self.writers.append(ForeignWriter(self.broker.service_url, self.admin))
        return self.writers[-1]

    async def topics(self, namespace: str) -> list[str]:
        """Returns the local names of the topics in a namespace that are change logs or partitions of one."""
        names = await self.ask("GET", f"persistent/{namespace}", includeSystemTopic="true")
        return sorted(name.rsplit("/", 1)[1] for name in names if CHANGE_EVENTS in name)

    async def stats(self, namespace: str) -> Any:
        """Returns the broker's statistics of a change log that is not partitioned."""
        return await self.ask("GET", f"persistent/{namespace}/{CHANGE_EVENTS}/stats")

    async def ask(self, method: str, path: str, body: object = None, **query: str) -> Any:
        """Sends one request to the admin API."""
        return await asyncio.to_thread(self.admin.call, method, path, body, **query)


@pytest.fixture
def namespace(admin: Admin, namespace: str) -> str:
    """A new namespace whose log is compacted only on request."""
    admin.compact_only_on_request(namespace)
    return namespace


@pytest.fixture
def partitioned_namespace(admin: Admin, partitioned_namespace: str) -> str:
    """The same with three partitions."""
    admin.compact_only_on_request(partitioned_namespace)
    return partitioned_namespace


async def _following(broker: Broker) -> AsyncIterator[Following]:
    with broker.admin() as admin:
        made = Following(broker, admin)
        yield made
        for log in made.logs:
            await log.close()
        for writer in made.writers:
            await asyncio.to_thread(writer.close)
    assert [recorder.complaints for recorder in made.recorders] == [[] for _ in made.recorders]


@pytest.fixture
async def following(broker: Broker) -> AsyncIterator[Following]:
    """Logs of the shared broker."""
    async for made in _following(broker):
        yield made


@pytest.fixture(scope="module")
def own_broker() -> Iterator[OwnBroker]:
    """A broker of the module's own that may be stopped and that compacts nothing by itself. It runs when a test begins."""
    broker = OwnBroker(settings={"brokerServiceCompactionMonitorIntervalInSeconds": "3600"}, heap_mb=600)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@pytest.fixture
async def own_following(own_broker: OwnBroker) -> AsyncIterator[Following]:
    """Logs of a broker that may be stopped."""
    if own_broker.pid is None:
        await asyncio.to_thread(own_broker.start)
    async for made in _following(own_broker):
        yield made
