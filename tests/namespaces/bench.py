"""Namespaces on a simulated clock, over a storage whose faults tests choose."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from tests.memory_log import Fate, Faults, MemoryLog, MemoryNamespaceLog, MemoryStorage, Outcome
from tests.simulation.loop import SimulatedLoop
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import Limits
from topicpolicies_server.core.chains.request import Request, Result
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Document, split
from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.logs.change_log import LogError, LogSink, Start
from topicpolicies_server.namespaces.namespace import Namespace
from topicpolicies_server.namespaces.registry import Registry
from topicpolicies_server.readiness import Readiness

NAMESPACE = "acme/orders"
KEY = PolicyKey("persistent://acme/orders/one", Scope.LOCAL)
OTHER = PolicyKey("persistent://acme/orders/two", Scope.LOCAL)


class ChosenFaults(Faults):
    """Gives each append the next fate of a list, or no fault."""

    def __init__(self) -> None:
        self.fates: list[Fate] = []
        self.read_seconds = 0.0

    def fate(self, namespace: str, event: Event) -> Fate:
        del namespace, event
        return self.fates.pop(0) if self.fates else Fate()

    def read_delay(self, namespace: str, placed: object) -> float:
        del namespace, placed
        return self.read_seconds


class CountingLog(MemoryLog):
    """Records openings, and refuses or delays them."""

    def __init__(self, storage: MemoryStorage, faults: ChosenFaults) -> None:
        super().__init__(storage, faults=faults, close_seconds=1.0)
        self.openings: list[tuple[float, str]] = []
        self.refusals: list[LogError] = []
        self.opening_seconds = 0.0
        self.opening = self.most_at_once = 0
        self.hanging: set[str] = set()
        """Namespaces whose logs do not open until they are taken out."""

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> MemoryNamespaceLog:
        self.openings.append((asyncio.get_running_loop().time(), namespace))
        self.opening += 1
        self.most_at_once = max(self.most_at_once, self.opening)
        try:
            await asyncio.sleep(self.opening_seconds)
            while namespace in self.hanging:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            if self.refusals:
                raise self.refusals.pop(0)
            return await super().open(namespace, sink, start)
        finally:
            self.opening -= 1


class Bench:
    """One process: its registry, its log, and the storage behind it."""

    def __init__(
        self,
        *,
        sole_writer: bool = True,
        window_ms: int = 30_000,
        storage: MemoryStorage | None = None,
        read_only: bool = False,
        pause_repairs: bool = False,
        readiness: Readiness | None = None,
        seed: int = 1,
        **limits: Any,
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self.loop = loop
        self.storage = storage or MemoryStorage(now=loop.milliseconds)
        self.faults = ChosenFaults()
        self.log = CountingLog(self.storage, self.faults)
        self.limits = Limits(**{"update_timeout_seconds": 1.0, "load_timeout_seconds": 5.0, "load_retry_seconds": 1.0, **limits})
        context = FoldContext(window_ms=window_ms, sole_writer=sole_writer)
        self.readiness = readiness or Readiness(3.0, known=True)
        self.registry = Registry(
            self.log,
            self.limits,
            context,
            read_only=read_only,
            pause_repairs=pause_repairs,
            readiness=self.readiness,
            seed=seed,
            now=loop.milliseconds,
        )
        self._number = 0

    @property
    def namespace(self) -> Namespace:
        return self.registry.get(NAMESPACE)

    @property
    def opened(self) -> MemoryNamespaceLog:
        """The log that this process has open now."""
        return self.log.opened(NAMESPACE)

    def request(self, value: int, *, key: PolicyKey = KEY, field: str = "max_producer_per_topic", **rest: Any) -> Request:
        self._number += 1
        change = compile_change(TopicPolicies(**{field: value}), [field], {})  # type: ignore[arg-type]
        return Request(key, change, rest.pop("request_id", f"request-{self._number}"), f"{field}={value}", **rest)

    async def set(self, value: int, **rest: Any) -> Result:
        return await self.namespace.update(self.request(value, **rest))

    def setting(self, value: int, **rest: Any) -> asyncio.Task[Result]:
        """Begins a ``set``; its error is raised when the task is awaited."""
        task = self.loop.create_task(self.set(value, **rest))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def value(self, key: PolicyKey = KEY) -> int | None:
        """Reads the value of ``max_producer_per_topic``; None: there is no document."""
        head = await self.namespace.get(key)
        if head is None or head.document is None:
            return None
        return int.from_bytes(dict(head.document)["max_producer_per_topic"][-1:], "big")

    def elsewhere(self, value: int, key: PolicyKey = KEY, **others: int) -> None:
        """Writes a document as a broker does."""
        self.storage.write(NAMESPACE, Event(key, Action.UPDATE, document(max_producer_per_topic=value, **others)))

    def ids(self) -> list[str]:
        """Returns the ids of all events in the log; "" for a broker's."""
        entries = self.storage.namespace(NAMESPACE).entries[0]
        return [placed.event.stamp.event_id if placed.event and placed.event.stamp else "" for placed in entries]


def document(**fields: int) -> Document:
    return split(TopicPolicies(**fields))  # type: ignore[arg-type]


def simulate(scenario: Callable[[Bench], Awaitable[None]], **options: Any) -> None:
    """Runs a scenario to its end, and closes its registry."""

    async def main() -> None:
        bench = Bench(**options)
        await scenario(bench)
        await bench.registry.close()

    loop = SimulatedLoop(random.Random(1))
    loop.run(main())
    assert loop.failures == []


async def error_of(awaitable: Awaitable[object]) -> PolicyError:
    """Returns the error with which an awaitable ends."""
    try:
        result = await awaitable
    except PolicyError as error:
        return error
    raise AssertionError(f"no error but {result}")


LOST_ACKNOWLEDGEMENT = Fate(Outcome.UNACKNOWLEDGED)
VANISHED = Fate(Outcome.VANISHED)
REFUSED = Fate(Outcome.REFUSED)
