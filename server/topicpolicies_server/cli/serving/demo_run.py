"""The load that the demo puts on a running server, and the proof that no update was lost.

Each client changes a setting of its own again and again, all of them in one document. Some share one counter instead: they read it and
write it back on the condition that the document still has the version that they read, so they meet conflicts and try again.
Meanwhile a watch receives every change.

The proof: in the order of versions, the ``previous_version`` of each acknowledged update is the version of the one before, without a gap;
the watch has received exactly these versions; and in the end the document has the last value of every client, and the counter is the
number of increments.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from topicpolicies import WATCH_MODE_EVERY, AsyncClient, ChangeResult, PolicyDocument, PreconditionFailed
from topicpolicies.masks import format_path
from topicpolicies.v1.service_pb2 import PolicyChange

from ..showing.rendering import lines

TOPIC = "persistent://public/default/demo"
COUNTER = "max_subscriptions_per_topic"
"""The field that is the shared counter."""
SETTINGS = (
    "max_producer_per_topic",
    "max_consumer_per_topic",
    "max_consumers_per_subscription",
    "max_unacked_messages_on_consumer",
    "max_unacked_messages_on_subscription",
    "message_ttl_in_seconds",
    "compaction_threshold",
    "deduplication_snapshot_interval_seconds",
    "subscription_expiration_time_in_minutes",
    "publish_rate.publish_throttling_rate_in_msg",
    "dispatch_rate.dispatch_throttling_rate_in_msg",
    "subscription_dispatch_rate.dispatch_throttling_rate_in_msg",
)
"""Fields that are changed by one client each. All further clients change the entry of one subscription each."""
COUNTING = 8
"""One client in this many shares the counter."""


@dataclass(slots=True)
class Report:
    """What the clients have done, and what the checks have found."""

    clients: int
    updates: int = 0
    """How many updates were acknowledged."""
    conflicts: int = 0
    """How often a client's version was outdated, so that the client tried again."""
    watched: int = 0
    """How many changes the watch has received."""
    links: int = 0
    """How many links between an update and the one before it were checked."""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    """What contradicts that no update was lost; empty: none was."""

    @property
    def updates_per_second(self) -> float:
        """Acknowledged updates per second."""
        return self.updates / self.seconds if self.seconds else 0.0


def setting_of(client: int) -> str | None:
    """Returns the path that a client changes; None: the client counts."""
    if client % COUNTING == 0:
        return None
    place = client - client // COUNTING - 1
    if place < len(SETTINGS):
        return SETTINGS[place]
    return format_path(("subscription_policies", f"client-{client:02}", "dispatch_rate", "dispatch_throttling_rate_in_msg"))


async def run(address: str, *, clients: int, updates_per_client: int, progress: Callable[[Report], None]) -> Report:
    """Runs the clients and the watch, and checks that no update was lost.

    Args:
        address: the server's address.
        clients: how many clients run at once.
        updates_per_client: how often each client changes its setting or counts.
        progress: called with the report after each acknowledged update and each watched change.
    """
    report = Report(clients)
    acknowledged: list[ChangeResult] = []
    seen: list[PolicyChange] = []

    def acknowledge(result: ChangeResult) -> None:
        acknowledged.append(result)
        report.updates += 1
        progress(report)

    everyone = [AsyncClient(address, actor=f"client-{number:02}") for number in range(clients)]
    try:
        beginning = (await everyone[0].delete(TOPIC)).version
        async with everyone[0].watch(topics=[TOPIC], mode=WATCH_MODE_EVERY) as watch:
            while not (await anext(watch)).bookmark.synced:
                pass
            all_done = clients * updates_per_client

            async def follow() -> None:
                while report.watched < all_done:
                    event = await anext(watch)
                    if event.HasField("change"):
                        seen.append(event.change)
                        report.watched += 1
                        progress(report)

            following = asyncio.ensure_future(follow())
            began = time.perf_counter()
            await asyncio.gather(
                *(_work(client, setting_of(number), updates_per_client, report, acknowledge) for number, client in enumerate(everyone))
            )
            report.seconds = time.perf_counter() - began
            await asyncio.wait_for(following, 60)
        final = await everyone[0].get(TOPIC)
    finally:
        await asyncio.gather(*(client.close() for client in everyone))
    _check_chain(report, beginning, acknowledged)
    _check_watch(report, acknowledged, seen)
    _check_document(report, final, updates_per_client)
    return report


async def _work(
    client: AsyncClient, setting: str | None, updates: int, report: Report, acknowledge: Callable[[ChangeResult], None]
) -> None:
    for number in range(1, updates + 1):
        if setting is not None:
            acknowledge(await client.update(TOPIC, {setting: number}))
            continue
        while True:
            document = await client.get(TOPIC)
            count = document.policies.max_subscriptions_per_topic
            try:
                acknowledge(await client.update(TOPIC, {COUNTER: count + 1}, version=document.version))
            except PreconditionFailed:
                report.conflicts += 1
            else:
                break


def _check_chain(report: Report, beginning: str, acknowledged: list[ChangeResult]) -> None:
    before = beginning
    for result in sorted(acknowledged, key=lambda result: result.version):
        report.links += 1
        if result.previous_version != before:
            report.problems.append(f"version {result.version} was applied to {result.previous_version}, not to {before}")
        before = result.version


def _check_watch(report: Report, acknowledged: list[ChangeResult], seen: list[PolicyChange]) -> None:
    told = [event.document.version for event in seen]
    if told != sorted({result.version for result in acknowledged}):
        report.problems.append("the watch has not received exactly the acknowledged versions, in order")


def _check_document(report: Report, final: PolicyDocument, updates: int) -> None:
    found = {format_path(path): value for path, value in lines(final.policies)}
    counting = len(range(0, report.clients, COUNTING))
    wanted = {setting_of(client) or COUNTER: updates for client in range(report.clients)} | {COUNTER: counting * updates}
    for setting, value in wanted.items():
        if found.get(setting) != str(value):
            report.problems.append(f"{setting} is {found.get(setting)}, not {value}")
