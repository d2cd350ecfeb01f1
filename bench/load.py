"""A closed loop of requests: a fixed number in flight, for a fixed time or number of calls.

The load generator shares the machine's cores with the program that it measures, so its own work is the same for every kind of call: it
sends bytes that are made beforehand, and receives bytes.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import statistics
import sys
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

import grpc
import httpx

from bench.limits import ECHO
from bench.targets import Program
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies

SERVICE = "/topicpolicies.v1.TopicPoliciesService/"
BATCH = 64
"""Updates of a call in batches."""
IN_FLIGHT = 4
"""Batches in flight."""
TOPICS = BATCH * IN_FLIGHT
"""So many that batches in flight have no topic in common."""
_NUMBERS = itertools.count(1)
"""Of all updates, so that each has a new value."""


class Sample(NamedTuple):
    """The result of one closed loop."""

    per_second: float
    p50_ms: float
    p99_ms: float
    calls: int

    @classmethod
    def of(cls, seconds: list[float], took: float) -> Sample:
        """Returns the sample of calls that took this long each, and all together."""
        cuts = statistics.quantiles(seconds, n=100) if len(seconds) > 1 else seconds * 99
        return cls(len(seconds) / took, cuts[49] * 1000, cuts[98] * 1000, len(seconds))


class Calls(NamedTuple):
    """A kind of call."""

    call: Callable[[], Awaitable[object]]
    prepare: Callable[[], None] = lambda: None
    """Makes the messages that the calls of one loop will send."""


async def closed_loop(calls: Calls, in_flight: int, seconds: float = math.inf, count: int = sys.maxsize) -> Sample:
    """Makes calls as fast as answers come, with ``in_flight`` calls in progress, until the time is over or all ``count`` are made."""
    calls.prepare()
    times: list[float] = []
    numbers = iter(range(count))
    begin = time.perf_counter()
    end = begin + seconds

    async def one() -> None:
        for _ in numbers:
            start = time.perf_counter()
            if start >= end:
                return
            await calls.call()
            times.append(time.perf_counter() - start)

    await asyncio.gather(*(one() for _ in range(in_flight)))
    return Sample.of(times, time.perf_counter() - begin)


async def loaded(program: Program, calls: Calls, in_flight: int, seconds: float) -> tuple[Sample, float]:
    """Makes calls to a program. Returns the sample, and the microseconds of processor time that the program took for each call."""
    before = program.processor_seconds
    sample = await closed_loop(calls, in_flight, seconds)
    return sample, (program.processor_seconds - before) / sample.calls * 1e6


def prepared(call: Callable[[bytes], Awaitable[object]], messages: Iterator[bytes], ready: int = 20_000) -> Calls:
    """Returns calls with these messages, ``ready`` of which are made before a loop begins."""
    waiting: deque[bytes] = deque()

    def refill() -> None:
        waiting.extend(itertools.islice(messages, ready - len(waiting)))

    return Calls(lambda: call(waiting.popleft() if waiting else next(messages)), refill)


def echo_calls(channel: grpc.aio.Channel) -> Calls:
    """Returns empty unary calls."""
    echo: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(ECHO)
    return Calls(lambda: echo(b""))


def _updates(namespace: str, topics: int) -> Iterator[service_pb2.UpdatePolicyRequest]:
    for number in _NUMBERS:
        request = service_pb2.UpdatePolicyRequest(
            topic=f"persistent://{namespace}/bench-{number % topics}",
            policies=TopicPolicies(max_producer_per_topic=number % 1_000_000),
            request_id=uuid.uuid4().hex,
        )
        request.update_mask.paths.append("max_producer_per_topic")
        yield request


def update_calls(channel: grpc.aio.Channel, namespace: str, topics: int) -> Calls:
    """Returns updates of one setting, each with a new value and a new request id, over this many topics in turn."""
    update: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{SERVICE}UpdatePolicy")
    return prepared(update, (each.SerializeToString() for each in _updates(namespace, topics)))


def batches(namespace: str, topics: int) -> Iterator[bytes]:
    """Yields the messages of batches of such updates."""
    updates = _updates(namespace, topics)
    while True:
        changes = (service_pb2.PolicyChangeRequest(update=each) for each in itertools.islice(updates, BATCH))
        yield service_pb2.BatchUpdatePoliciesRequest(changes=changes).SerializeToString()


def batch_calls(channel: grpc.aio.Channel, namespace: str, topics: int = TOPICS) -> Calls:
    """Returns batches of such updates."""
    update: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"{SERVICE}BatchUpdatePolicies")
    return prepared(update, batches(namespace, topics), 1_000)


async def fill(address: str, namespace: str, topics: int, updates: int = 0) -> int:
    """Updates all topics in turn, each once or ``updates`` altogether if that is more. Returns the number of updates, which is a bit more.

    Raises:
        RuntimeError: a change was refused.
    """
    async with grpc.aio.insecure_channel(address) as channel:
        calls = batch_calls(channel, namespace, topics)
        answer = await calls.call()
        assert isinstance(answer, bytes), "not parsed"
        for result in service_pb2.BatchUpdatePoliciesResponse.FromString(answer).results:
            if result.HasField("error"):
                raise RuntimeError(f"{namespace} is not filled: {result.error}")
        sample = await closed_loop(calls, IN_FLIGHT, count=-(-max(topics, updates) // BATCH))
    return BATCH * (sample.calls + 1)


def rest_calls(admin: httpx.AsyncClient, namespace: str) -> Calls:
    """Returns the same updates of one topic over the broker's own admin REST."""
    numbers = itertools.count(1)

    async def call() -> None:
        answer = await admin.post(f"/admin/v2/persistent/{namespace}/bench-0/maxProducers", json=next(numbers) % 1_000_000)
        answer.raise_for_status()

    return Calls(call)
