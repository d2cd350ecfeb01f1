"""Clients that change settings through whichever sidecar leads, and note what they are told."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import defaultdict

from tests.validators.links import Link
from topicpolicies import AsyncClient, OutcomeUnknown, RetryPolicy, TopicPoliciesError, UpdateOutcome

RETRIES = RetryPolicy(first_delay_seconds=0.02, longest_delay_seconds=0.3, attempt_timeout_seconds=2.0)

MOST_PAUSE_SECONDS = 0.05
"""Between two updates of a client: sidecars that are started meanwhile need the processors too."""
UPDATES_AT_A_TIME = 300
"""Written around a fault at most, before it and after it: else the slower a starting sidecar reads the log, the more there is to read."""


class Load:
    """Clients with a subscription's entry of their own in each topic."""

    def __init__(self, targets: str, topics: list[str], seed: int) -> None:
        """``targets``: the sidecars' addresses, separated by commas."""
        self.topics = topics
        self.stopping = False
        self.in_flight: set[str] = set()
        self.answered = 0
        self.repeated = 0
        """Updates that had been applied before the answer came to their repeat."""
        self.links: dict[str, list[Link]] = defaultdict(list)
        self.last: dict[tuple[str, str], int] = {}
        """The newest acknowledged value, by topic and subscription; each has one writer."""
        self._targets = targets
        self._chance = random.Random(seed)
        self._news = asyncio.Event()
        self._left = UPDATES_AT_A_TIME
        self._goes_on = asyncio.Event()

    def go_on(self) -> None:
        """The clients may write as much again, at full speed."""
        self._left = UPDATES_AT_A_TIME
        self._goes_on.set()

    def stop(self) -> None:
        """The clients end what they are at, and return."""
        self.stopping = True
        self._goes_on.set()

    async def until_answered(self, more: int) -> None:
        """Waits for so many more answers."""
        goal = self.answered + more
        while self.answered < goal:
            self._news.clear()
            await self._news.wait()

    async def client(self, name: str) -> None:
        """One client, until it is told to stop."""
        async with AsyncClient(self._targets, retries=RETRIES) as client:
            value = 0
            while not self.stopping:
                if self._left <= 0:
                    self._goes_on.clear()
                    await self._goes_on.wait()
                    continue
                self._left -= 1
                value += 1
                await self.update(client, self._chance.choice(self.topics), name, value)
                await asyncio.sleep(self._chance.uniform(0, MOST_PAUSE_SECONDS))

    async def update(self, client: AsyncClient, topic: str, name: str, value: int, request_id: str = "") -> None:
        """One update, repeated until it is settled."""
        request_id = request_id or str(uuid.uuid4())
        self.in_flight.add(request_id)
        change = {f"subscription_policies.`{name}`.dispatch_rate.dispatch_throttling_rate_in_msg": value}
        try:
            while True:
                try:
                    result = await client.update(topic, change, request_id=request_id, timeout=30)
                    break
                except OutcomeUnknown:
                    continue  # the same id again
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
