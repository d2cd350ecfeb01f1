"""Administrators that change different settings of the same topics at the same time, round after round, and the changes that are lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.broker.admin import Admin
from tests.promises.shared.acknowledged import Acknowledged, Cell
from tests.promises.shared.raw_log import RawLog
from tests.promises.shared.rest import set_over_rest, wrongly_shown
from tests.promises.shared.settings import CLIENTS, REST, Owned

THREADS: tuple[Owned, ...] = (*REST, *CLIENTS[:2])
"""The setting of each thread."""


@dataclass
class Storm:
    """The result of a storm."""

    changes: int = 0
    """How many changes were acknowledged, in all rounds."""
    lost: list[int] = field(default_factory=list)
    """How many acknowledged changes brokers did not show when a round had come to rest, by round."""
    topics: set[str] = field(default_factory=set)
    """The topics of which a change was lost."""
    stories: list[str] = field(default_factory=list)
    """The events that led to each loss."""

    def rested(self, wrong: Mapping[Cell, int], left: Mapping[Cell, int], log: RawLog | None) -> None:
        """Records the numbers that a broker shows wrongly when a round has come to rest; ``left`` has the right ones."""
        self.lost.append(len(wrong))
        self.topics |= {cell.topic for cell in wrong}
        if log is not None:
            self.stories += [f"{cell} shows {shown}, not {left[cell]}:\n{log.story(cell.topic)}" for cell, shown in wrong.items()]


async def overlapping_changes(
    connect: Callable[[], Admin],
    topics: Sequence[str],
    acknowledged: Acknowledged,
) -> None:
    """Has every thread set its setting on each topic once. All begin each topic together: on busy processors they would drift apart."""
    begin = threading.Barrier(len(THREADS), timeout=60)

    def once(owned: Owned) -> None:
        with connect() as admin:
            for topic in topics:
                begin.wait()
                set_over_rest(admin, Cell(topic, owned), acknowledged)

    await asyncio.gather(*(asyncio.to_thread(once, owned) for owned in THREADS))


async def storm(
    connect: Callable[[], Admin],
    topics: Sequence[str],
    rounds: int,
    at_rest: Callable[[], Awaitable[None]] | None = None,
    log: RawLog | None = None,
) -> Storm:
    """Has every thread set its setting on each topic once in each round; then waits for a rest, and checks what brokers show.

    Args:
        connect: connects to the brokers.
        topics: full names.
        rounds: how many rounds there are.
        at_rest: returns when nothing is left to be healed; None: no guard runs.
        log: the log whose events are reported if a change is lost.
    """
    acknowledged, result = Acknowledged(), Storm()
    for _ in range(rounds):
        await overlapping_changes(connect, topics, acknowledged)
        if at_rest is not None:
            await at_rest()
        wrong = await asyncio.to_thread(wrongly_shown, connect, acknowledged, 3.0 if at_rest is not None else 0.5)
        result.rested(wrong, acknowledged.newest, log)
    assert not acknowledged.errors, acknowledged.errors
    result.changes = acknowledged.total
    return result


SEQUENCE: dict[str, tuple[str, object]] = {
    "inactive_topic_policies": (
        "inactiveTopicPolicies",
        {"inactiveTopicDeleteMode": "delete_when_no_subscriptions", "maxInactiveDurationSeconds": 3600, "deleteWhileInactive": True},
    ),
    "replicator_dispatch_rate": (
        "replicatorDispatchRate",
        {
            "dispatchThrottlingRateInMsg": 100,
            "dispatchThrottlingRateInByte": -1,
            "relativeToPublishRate": False,
            "ratePeriodInSecond": 1,
        },
    ),
    "replication_clusters": ("replication", ["standalone"]),
}
"""Three calls that an automation makes one after the other on a new topic."""


def sequence(connect: Callable[[], Admin], topics: Sequence[str]) -> None:
    """Makes the calls of ``SEQUENCE`` on each topic, one as soon as the one before was answered."""
    with connect() as admin:
        for topic in topics:
            for path, body in SEQUENCE.values():
                admin.call("POST", f"persistent/{topic.removeprefix('persistent://')}/{path}", body)


def missing(connect: Callable[[], Admin], topics: Sequence[str], seconds: float = 10.0) -> list[str]:
    """Returns the settings of ``SEQUENCE`` that are not shown, even after a while."""
    deadline = time.monotonic() + seconds
    with connect() as admin:
        while True:
            gone = [
                f"{topic} {setting}"
                for topic in topics
                for setting, (path, _) in SEQUENCE.items()
                if not admin.call("GET", f"persistent/{topic.removeprefix('persistent://')}/{path}")
            ]
            if not gone or time.monotonic() > deadline:
                return gone
            time.sleep(0.2)
