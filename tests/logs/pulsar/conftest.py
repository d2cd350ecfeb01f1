"""What the tests of the Pulsar log share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.broker.admin import CHANGE_EVENTS, Admin
from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.logs.pulsar.foreign import ForeignWriter
from tests.logs.recorder import Recorder
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog, PulsarNamespaceLog

QUICK = PulsarLimits(creation_seconds=0.5, check_seconds=1.0, close_seconds=3.0)
"""Limits under which everything that happens from time to time happens often."""


@dataclass
class Following:
    """Opens logs of a broker, and at the end closes them and asks all sinks for complaints."""

    broker: Broker
    admin: Admin
    logs: list[PulsarLog] = field(default_factory=list)
    recorders: list[Recorder] = field(default_factory=list)
    writers: list[ForeignWriter] = field(default_factory=list)

    def start(self, **options: Any) -> PulsarLog:
        """A log like that of one sidecar."""
        log = PulsarLog(self.broker.service_url, self.broker.admin_url, **{"limits": QUICK, **options})
        self.logs.append(log)
        return log

    async def open(self, namespace: str, change_log: PulsarLog | None = None) -> tuple[PulsarNamespaceLog, Recorder]:
        """A namespace's log that has read what is there."""
        recorder = Recorder()
        self.recorders.append(recorder)
        log = await (change_log or self.start()).open(namespace, recorder)
        await recorder.until_caught_up()
        return log, recorder

    def foreign(self) -> ForeignWriter:
        """Somebody else who writes."""
        self.writers.append(ForeignWriter(self.broker.service_url, self.admin))
        return self.writers[-1]

    async def topics(self, namespace: str) -> list[str]:
        """The local names of the topics in a namespace that are (partitions of) change logs."""
        names = await self.ask("GET", f"persistent/{namespace}", includeSystemTopic="true")
        return sorted(name.rsplit("/", 1)[1] for name in names if CHANGE_EVENTS in name)

    async def stats(self, namespace: str) -> Any:
        """What the broker says of a plain change log."""
        return await self.ask("GET", f"persistent/{namespace}/{CHANGE_EVENTS}/stats")

    async def ask(self, method: str, path: str, body: object = None, **query: str) -> Any:
        """One call of the admin API."""
        return await asyncio.to_thread(self.admin.call, method, path, body, **query)


async def eventually(holds: Callable[[], Any], seconds: float = 20.0) -> None:
    """Waits for something that nobody announces; ``holds`` may be a coroutine function."""
    async with asyncio.timeout(seconds):
        while True:
            answer = holds()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            await asyncio.sleep(0.05)


@pytest.fixture
def namespace(admin: Admin, namespace: str) -> str:
    """A new namespace whose log is compacted only when a test asks for it."""
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
    """A broker of the module's own, which may be stopped and compacts nothing by itself; each test finds it running."""
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
