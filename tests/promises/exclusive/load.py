"""Clients that change settings through whichever sidecar leads, and note the answers."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import defaultdict

from tests.validators.links import Link
from topicpolicies import AsyncClient, OutcomeUnknown, RetryPolicy, TopicPoliciesError, UpdateOutcome

RETRIES = RetryPolicy(first_delay_seconds=0.02, longest_delay_seconds=0.3, attempt_timeout_seconds=2.0)

MOST_PAUSE_SECONDS = 0.05
"""The longest pause between two updates of a client: sidecars that are started meanwhile need the processors too."""
UPDATES_AT_A_TIME = 300
"""The most updates between two calls of ``allow_more``: without a limit, the log of a slowly starting sidecar would grow while it reads."""


class Load:
    """Clients that each change the entry of a subscription of their own in each topic."""

    def __init__(self, targets: str, topics: list[str], seed: int) -> None:
        """``targets``: the sidecars' addresses, separated by commas."""
        self.topics = topics
        self.stopping = False
        self.in_flight: set[str] = set()
        self.answered = 0
        self.repeated = 0
        """The number of updates that had been applied before the answer to their repeat."""
        self.links: dict[str, list[Link]] = defaultdict(list)
        self.last: dict[tuple[str, str], int] = {}
        """The newest acknowledged value by topic and subscription, each of which has one writer."""
        self._targets = targets
        self._chance = random.Random(seed)
        self._news = asyncio.Event()
        self._left = UPDATES_AT_A_TIME
        self._allowed = asyncio.Event()

    def allow_more(self) -> None:
        """Lets the clients make another ``UPDATES_AT_A_TIME`` updates."""
        self._left = UPDATES_AT_A_TIME
        self._allowed.set()

    def stop(self) -> None:
        """Makes the clients return after their present update."""
        self.stopping = True
        self._allowed.set()

    async def until_answered(self, more: int) -> None:
        """Waits for this many more answers."""
        goal = self.answered + more
        while self.answered < goal:
            self._news.clear()
            await self._news.wait()

    async def client(self, name: str) -> None:
        """Makes updates as one client until ``stop`` is called."""
        async with AsyncClient(self._targets, retries=RETRIES) as client:
            value = 0
            while not self.stopping:
                if self._left <= 0:
                    self._allowed.clear()
                    await self._allowed.wait()
                    continue
                self._left -= 1
                value += 1
                await self.update(client, self._chance.choice(self.topics), name, value)
                await asyncio.sleep(self._chance.uniform(0, MOST_PAUSE_SECONDS))

    async def update(self, client: AsyncClient, topic: str, name: str, value: int, request_id: str = "") -> None:
        """Makes one update, and repeats it until it is settled."""
        request_id = request_id or str(uuid.uuid4())
        self.in_flight.add(request_id)
        change = {f"subscription_policies.`{name}`.dispatch_rate.dispatch_throttling_rate_in_msg": value}
        try:
            while True:
                try:
                    result = await client.update(topic, change, request_id=request_id, timeout=30)
                    break
                except OutcomeUnknown:
                    continue  # repeats with the same id
                except TopicPoliciesError as error:
                    raise AssertionError(f"{error.code} {error.reason} {error}") from error
        finally:
            self.in_flight.discard(request_id)
        assert result.outcome is UpdateOutcome.APPLIED, f"{result.outcome.name}: each update sets another value, and is applied once"
        self.links[topic].append(Link(request_id, result.previous_version, result.version))
        self.last[topic, name] = value
        self.repeated += result.replayed
        self.answered += 1
        self._news.set()
