"""Clients that change settings through any sidecar, whichever leads, and note the answers."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import defaultdict
from types import TracebackType
from typing import Self

from tests.promises.api import Api, Change, Refused, Update
from tests.validators.links import Link
from topicpolicies.v1.policies_pb2 import TopicPolicies

ATTEMPT_SECONDS = 2.0
"""How long one attempt may take: a suspended leader does not answer."""
SETTLED_SECONDS = 90.0

MOST_PAUSE_SECONDS = 0.05
"""The longest pause between two updates of a client: sidecars that are started meanwhile need the processors too."""
UPDATES_AT_A_TIME = 160
"""The most updates between two calls of ``allow_more``, enough for half a second: without a limit, the log of a slowly starting sidecar
would grow while it reads."""


class Caller:
    """A client of several sidecars: it goes from one address to the next when one does not answer."""

    def __init__(self, addresses: list[str]) -> None:
        """Does not connect yet."""
        self._apis = {address: Api(address) for address in addresses}
        self._at = addresses[0]

    async def __aenter__(self) -> Self:
        """Makes the channels."""
        for api in self._apis.values():
            await api.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Closes the channels."""
        for api in self._apis.values():
            await api.__aexit__(kind, error, trace)

    async def settled(self, update: Update) -> Change:
        """Sends an update again and again, with its request id, until it is answered."""
        loop = asyncio.get_running_loop()
        deadline, delay = loop.time() + SETTLED_SECONDS, 0.02
        while True:
            try:
                return await self._apis[self._at].send(update, timeout=ATTEMPT_SECONDS)
            except Refused as error:
                if error.code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED") or loop.time() > deadline:
                    raise
            addresses = [*self._apis]
            self._at = addresses[(addresses.index(self._at) + 1) % len(addresses)]
            await asyncio.sleep(delay)
            delay = min(2 * delay, 0.3)


class Load:
    """Clients that each change the entry of a subscription of their own in each topic."""

    def __init__(self, targets: list[str], topics: list[str], seed: int) -> None:
        """``targets``: the sidecars' addresses."""
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
        async with Caller(self._targets) as client:
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

    async def update(self, client: Caller, topic: str, name: str, value: int, request_id: str = "") -> None:
        """Makes one update, and repeats it until it is settled."""
        request_id = request_id or str(uuid.uuid4())
        self.in_flight.add(request_id)
        try:
            result = await client.settled(holding(topic, name, value, request_id))
        finally:
            self.in_flight.discard(request_id)
        assert result.outcome == "APPLIED", f"{result.outcome}: each update sets another value, and is applied once"
        self.links[topic].append(Link(request_id, result.previous_version, result.version))
        self.last[topic, name] = value
        self.repeated += result.replayed
        self.answered += 1
        self._news.set()


def holding(topic: str, name: str, value: int, request_id: str) -> Update:
    """Returns an update of the rate of a subscription."""
    policies = TopicPolicies()
    policies.subscription_policies[name].dispatch_rate.dispatch_throttling_rate_in_msg = value
    path = f"subscription_policies.`{name}`.dispatch_rate.dispatch_throttling_rate_in_msg"
    return Update(topic, policies, mask=[path], request_id=request_id)
