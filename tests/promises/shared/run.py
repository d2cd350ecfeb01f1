"""One run: four administrators over REST and sixteen clients of two sidecars, or of a naive second writer; and its results."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.broker.pulsar_broker import Broker
from tests.plain_http import NO_TLS
from tests.ports import free_port
from tests.promises.api import Api
from tests.promises.server_process import ServerProcess

from .acknowledged import Acknowledged, Cell
from .clients import client, wrongly_answered
from .heads import Heads
from .naive import NaiveWriter
from .raw_log import RawLog
from .rest import administrator, wrongly_shown
from .settings import CLIENTS, REST
from .term import Term

_LEAST = {"admin REST": 4, "sidecars": 100}
"""How many changes of each kind are enough for conflicts, however slow the machine is."""
_LEAST_BESIDE_NAIVE = {"admin REST": 4, "naive writer": 20}
"""The same for runs with a naive writer."""


@dataclass
class Report:
    """The results of a run."""

    name: str
    seconds: float
    """How long the writers worked."""
    changes: dict[str, int] = field(default_factory=dict)
    """Acknowledged changes, by kind of writer."""
    errors: dict[str, int] = field(default_factory=dict)
    lost: dict[str, list[str]] = field(default_factory=dict)
    """By the broker or sidecar that shows them: descriptions of acknowledged changes that are not there in the end."""
    undone: list[str] = field(default_factory=list)
    """Descriptions of changes that were undone in the watch of a sidecar."""
    heads: list[int] = field(default_factory=list)
    """The number of changes in the watch of each sidecar."""
    log: dict[str, int] = field(default_factory=dict)
    """See ``RawLog.counts``."""
    longest_wrong_ms: int = 0
    metrics: list[dict[str, float]] = field(default_factory=list)
    """The metrics of each sidecar."""
    stories: list[str] = field(default_factory=list)
    """The events of topics that lost a change."""

    @property
    def acknowledged(self) -> int:
        """The number of acknowledged changes."""
        return sum(self.changes.values())

    @property
    def extra(self) -> float:
        """The number of repairs in the log per acknowledged change."""
        return self.log.get("repairs", 0) / max(self.acknowledged, 1)

    def __str__(self) -> str:
        summary = ", ".join(f"{count} by {writer}" for writer, count in self.changes.items())
        log = ", ".join(f"{name} {count}" for name, count in sorted(self.log.items()))
        lines = [
            f"{self.name}, {self.seconds:.0f} s: {self.acknowledged} changes acknowledged ({summary}); errors: {self.errors or 'none'}",
            f"  the log: {log}; extra events per change {self.extra:.3f}; brokers wrong for at most {self.longest_wrong_ms} ms",
            *(f"  lost as {who} shows it: {len(lost)} of {self.acknowledged}" for who, lost in self.lost.items()),
        ]
        lines += [f"  sidecar {number}: {changes} changes sent" for number, changes in enumerate(self.heads)]
        return "\n".join(lines + [f"  undone: {each}" for each in self.undone[:10]] + self.stories)


class Place:
    """A namespace with topics, on a broker."""

    def __init__(self, broker: Broker, *, topics: int, partitions: int, prefix: str = "shared") -> None:
        with broker.admin() as admin:
            self.namespace = admin.create_namespace(prefix)
            admin.compact_only_on_request(self.namespace)
            if partitions:
                admin.partition_change_events(self.namespace, partitions)
            self.topics = [f"persistent://{self.namespace}/topic-{number}" for number in range(topics)]
            for topic in self.topics:
                admin.create_topic(topic.removeprefix("persistent://"))
        self.broker = broker
        self.name = f"{topics} topic{'s' * (topics > 1)}, {f'{partitions} partitions' if partitions else 'plain'}"

    def compact(self) -> None:
        """Compacts the namespace's change log, and waits until that is done."""
        with self.broker.admin() as admin:
            admin.compact_change_events(self.namespace)

    def log(self) -> RawLog:
        """Returns the namespace's change log."""
        return RawLog(self.broker, self.namespace)


async def beside_sidecars(place: Place, seconds: float, home: Path) -> Report:
    """Runs the administrators and the clients of two sidecars; in the end reads from a third sidecar too."""
    report = Report(f"two sidecars beside the admin REST of {place.broker.version}, {place.name}", seconds)
    acknowledged = Acknowledged()
    async with contextlib.AsyncExitStack() as stack:
        sidecars = [await stack.enter_async_context(sidecar(place.broker, home / f"sidecar-{number}.log")) for number in range(2)]
        log = await stack.enter_async_context(place.log())
        callers = [await stack.enter_async_context(Api(server.address)) for server, _ in sidecars for _ in range(len(CLIENTS) // 2)]
        heads = [Heads(await stack.enter_async_context(Api(server.address)), place.namespace) for server, _ in sidecars]
        watches = [asyncio.create_task(each.follow()) for each in heads]
        for each in heads:
            await each.synced()
        with Term(acknowledged, seconds, _LEAST) as term:
            await asyncio.gather(
                *(administrator(place.broker.admin, owned, place.topics, acknowledged, term, seed) for seed, owned in enumerate(REST)),
                *(
                    client(api, owned, place.topics, acknowledged, term, seed)
                    for seed, (api, owned) in enumerate(zip(callers, CLIENTS, strict=True), len(REST))
                ),
            )
        report.seconds = term.seconds
        await quiet(log, [metrics_at for _, metrics_at in sidecars])
        await judge(report, place, log, acknowledged)
        for number, (server, _) in enumerate(sidecars):
            async with Api(server.address) as api:
                lost(report, f"sidecar {number}", await wrongly_answered(api, place.topics, acknowledged), log)
        await asyncio.to_thread(place.compact)
        late, _ = await stack.enter_async_context(sidecar(place.broker, home / "sidecar-late.log"))
        async with Api(late.address) as api:
            lost(report, "a sidecar started afterwards", await wrongly_answered(api, place.topics, acknowledged), log)
        report.metrics = [await asyncio.to_thread(scrape, metrics_at) for _, metrics_at in sidecars]
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
    report.undone = [each for head in heads for each in head.undone]
    report.heads = [head.changes for head in heads]
    return report


async def beside_naive_writer(place: Place, seconds: float) -> Report:
    """Runs the administrators and a naive second writer that makes the same changes."""
    report = Report(f"a naive second writer beside the admin REST of {place.broker.version}, {place.name}", seconds)
    acknowledged = Acknowledged()
    async with place.log() as log:
        writer = NaiveWriter(log)
        with Term(acknowledged, seconds, _LEAST_BESIDE_NAIVE) as term:
            await asyncio.gather(
                *(administrator(place.broker.admin, owned, place.topics, acknowledged, term, seed) for seed, owned in enumerate(REST)),
                *(writer.client(owned, place.topics, acknowledged, term, seed) for seed, owned in enumerate(CLIENTS, len(REST))),
            )
        report.seconds = term.seconds
        await asyncio.sleep(0.5)
        await judge(report, place, log, acknowledged, seconds=1.0)
    report.stories = []
    return report


async def judge(report: Report, place: Place, log: RawLog, acknowledged: Acknowledged, seconds: float = 15.0) -> None:
    """Notes what the brokers show wrongly in the end, and the counters of the log."""
    report.changes, report.errors = dict(acknowledged.changes), dict(acknowledged.errors)
    lost(report, "the admin REST", await asyncio.to_thread(wrongly_shown, place.broker.admin, acknowledged, seconds), log)
    report.log = dict(log.counts)
    report.longest_wrong_ms = log.longest_wrong_ms


def lost(report: Report, who: str, wrong: dict[Cell, int], log: RawLog) -> None:
    """Notes the cells that a broker or sidecar shows wrongly, and the events of their topics."""
    report.lost[who] = [f"{cell}: {number}" for cell, number in wrong.items()]
    for topic in list(dict.fromkeys(cell.topic for cell in wrong))[:2]:
        report.stories.append(f"events of {topic}, of which {who} shows {report.lost[who][:5]}:\n{log.story(topic)}")


async def quiet(log: RawLog, metrics_at: list[str], seconds: float = 20.0) -> None:
    """Waits until no repair is due and no document is wrong, but at most ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        await asyncio.sleep(0.3)
        due = [(await asyncio.to_thread(scrape, address))["repairs_due"] for address in metrics_at]
        if not any(due) and not log.wrong:
            return


@contextlib.asynccontextmanager
async def sidecar(broker: Broker, output: Path, *options: str) -> AsyncIterator[tuple[ServerProcess, str]]:
    """Runs a sidecar of a broker's cluster; yields it and the address of its metrics."""
    metrics_at = f"127.0.0.1:{free_port()}"
    always = ["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--writer", "shared", "--metrics-listen", metrics_at]
    server = ServerProcess([*always, *options], output)
    await server.start()
    try:
        yield server, metrics_at
    finally:
        await asyncio.to_thread(server.stop)


def scrape(address: str) -> dict[str, float]:
    """Returns the metrics at an address, by name without prefix and label values in the order of the labels' names."""
    answer = httpx.get(f"http://{address}/metrics", trust_env=False, verify=NO_TLS)
    return {
        " ".join(
            (sample.name.removeprefix("topicpolicies_").removesuffix("_total"), *(sample.labels[label] for label in sorted(sample.labels)))
        ): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
