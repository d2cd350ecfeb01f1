"""What the demo does to a running server, and how it proves that nothing was lost.

Each client changes a setting of its own, over and over, all of them in one document. Some share one counter instead: they read it and
write it back on the condition that the document is still at the version they read, so that they meet conflicts and must try again.
Meanwhile a watch listens to every change.

The proof: along all acknowledged updates each version is the next one's ``previous_version``, without a gap; the watch has told of
exactly these versions; and in the end the document has every client's last value, and the counter has counted every increment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from topicpolicies import AsyncClient, Changed, Conflict, Document, Synced, TopicPolicies, UpdateResult, WatchMode
from topicpolicies.masks import format_path

from ..showing.rendering import lines

TOPIC = "persistent://public/default/demo"
COUNTER = "max_subscriptions_per_topic"
"""The field that several clients share."""
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
"""The fields that one client each changes; the other clients change one subscription's entry each."""
COUNTING = 8
"""Every so manieth client shares the counter."""


@dataclass(slots=True)
class Report:
    """What was done and what was found."""

    clients: int
    updates: int = 0
    """Acknowledged updates."""
    conflicts: int = 0
    """Times that a client's version was overtaken, and it tried again."""
    watched: int = 0
    """Changes that the watch has told of."""
    links: int = 0
    """Links that were checked between an update's previous version and the version before it."""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    """What contradicts the promise; empty: nothing was lost."""

    @property
    def updates_per_second(self) -> float:
        """Acknowledged updates by the time that all of them took."""
        return self.updates / self.seconds if self.seconds else 0.0


def setting_of(client: int) -> str | None:
    """The path that a client changes; None: the shared counter."""
    if client % COUNTING == 0:
        return None
    place = client - client // COUNTING - 1
    if place < len(SETTINGS):
        return SETTINGS[place]
    return format_path(("subscription_policies", f"client-{client:02}", "dispatch_rate", "dispatch_throttling_rate_in_msg"))


async def run(address: str, *, clients: int, updates_per_client: int, progress: Callable[[Report], None]) -> Report:
    """Runs the clients and the watch, and checks what came of it.

    Args:
        address: the server's.
        clients: how many at once.
        updates_per_client: how often each changes its setting.
        progress: called when something has happened.
    """
    report = Report(clients)
    acknowledged: list[UpdateResult] = []
    seen: list[Changed] = []

    def acknowledge(result: UpdateResult) -> None:
        acknowledged.append(result)
        report.updates += 1
        progress(report)

    everyone = [AsyncClient(address, actor=f"client-{number:02}") for number in range(clients)]
    try:
        beginning = (await everyone[0].delete(TOPIC)).version
        async with everyone[0].watch(topics=[TOPIC], mode=WatchMode.EVERY) as watch:
            while not isinstance(await anext(watch), Synced):
                pass
            all_done = clients * updates_per_client

            async def follow() -> None:
                while report.watched < all_done:
                    event = await anext(watch)
                    if isinstance(event, Changed):
                        seen.append(event)
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
    client: AsyncClient, setting: str | None, updates: int, report: Report, acknowledge: Callable[[UpdateResult], None]
) -> None:
    for number in range(1, updates + 1):
        if setting is not None:
            acknowledge(await client.update(TOPIC, {setting: number}))
            continue
        while True:
            document = await client.get(TOPIC)
            count = document.policies.max_subscriptions_per_topic if document.policies is not None else 0
            try:
                acknowledge(await client.update(TOPIC, {COUNTER: count + 1}, etag=document.version))
            except Conflict:
                report.conflicts += 1
            else:
                break


def _check_chain(report: Report, beginning: str, acknowledged: list[UpdateResult]) -> None:
    before = beginning
    for result in sorted(acknowledged, key=lambda result: result.version):
        report.links += 1
        if result.previous_version != before:
            report.problems.append(f"version {result.version} was applied to {result.previous_version}, not to {before}")
        before = result.version


def _check_watch(report: Report, acknowledged: list[UpdateResult], seen: list[Changed]) -> None:
    told = [event.document.version for event in seen]
    if told != sorted({result.version for result in acknowledged}):
        report.problems.append("the watch has not told of exactly the acknowledged versions, in order")


def _check_document(report: Report, final: Document, updates: int) -> None:
    found = {format_path(path): value for path, value in lines(final.policies or TopicPolicies())}
    counting = len(range(0, report.clients, COUNTING))
    wanted = {setting_of(client) or COUNTER: updates for client in range(report.clients)} | {COUNTER: counting * updates}
    for setting, value in wanted.items():
        if found.get(setting) != str(value):
            report.problems.append(f"{setting} is {found.get(setting)}, not {value}")
