"""A closed loop of requests: a fixed number in flight, for a fixed time.

The load generator shares the machine's cores with the program that it measures, so its own work is the same for every kind of call: it
sends bytes and receives bytes. The messages of updates are made beforehand.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import grpc
import httpx

from bench.echo import METHOD
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies

_UPDATE = "/topicpolicies.v1.TopicPoliciesService/UpdatePolicy"
_READY = 20_000
"""How many messages are made before a loop begins."""


class Sample(NamedTuple):
    """The result of one closed loop."""

    per_second: float
    p50_ms: float
    p99_ms: float
    calls: int


class Calls(NamedTuple):
    """A kind of call."""

    call: Callable[[], Awaitable[object]]
    prepare: Callable[[], None] = lambda: None
    """Makes the messages that the calls of one loop will send."""


async def closed_loop(calls: Calls, in_flight: int, seconds: float) -> Sample:
    """Makes calls as fast as answers come, with ``in_flight`` calls in progress, and measures the time of each."""
    calls.prepare()
    call = calls.call
    times: list[float] = []
    begin = time.perf_counter()
    end = begin + seconds

    async def one() -> None:
        while (start := time.perf_counter()) < end:
            await call()
            times.append(time.perf_counter() - start)

    await asyncio.gather(*(one() for _ in range(in_flight)))
    took = time.perf_counter() - begin
    cuts = statistics.quantiles(times, n=100) if len(times) > 1 else times * 99
    return Sample(len(times) / took, cuts[49] * 1000, cuts[98] * 1000, len(times))


def echo_calls(channel: grpc.aio.Channel) -> Calls:
    """Returns empty unary calls."""
    echo: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
    return Calls(lambda: echo(b""))


def update_calls(channel: grpc.aio.Channel, namespace: str, keys: int) -> Calls:
    """Returns updates of one setting, each with a new value and a new request id, over this many topics in turn."""
    update: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_UPDATE)
    messages = (_message(namespace, keys, number) for number in itertools.count(1))
    ready = [next(messages) for _ in range(_READY)]

    def call() -> Awaitable[object]:
        return update(ready.pop() if ready else next(messages))

    def refill() -> None:
        ready.extend(next(messages) for _ in range(_READY - len(ready)))

    return Calls(call, refill)


def _message(namespace: str, keys: int, number: int) -> bytes:
    request = service_pb2.UpdatePolicyRequest(
        topic=f"persistent://{namespace}/bench-{number % keys}",
        policies=TopicPolicies(max_producer_per_topic=number % 1_000_000),
        request_id=uuid.uuid4().hex,
    )
    request.update_mask.paths.append("max_producer_per_topic")
    return request.SerializeToString()


def rest_calls(admin: httpx.AsyncClient, namespace: str) -> Calls:
    """Returns the same updates of one topic over the broker's own admin REST."""
    numbers = itertools.count(1)

    async def call() -> None:
        answer = await admin.post(f"/admin/v2/persistent/{namespace}/bench-0/maxProducers", json=next(numbers) % 1_000_000)
        answer.raise_for_status()

    return Calls(call)
