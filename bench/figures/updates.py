"""Single updates, by how many are in flight.

On the embedded log they stand beside an empty echo on the same stack; on a broker beside the broker's own admin API, and beside a bare
publish plus an echo.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping

import grpc
import httpx

from bench.limits import limits
from bench.load import Calls, Sample, closed_loop, echo_calls, rest_calls, update_calls
from bench.targets import embedded, new_namespace, pulsar
from tests.broker.admin import Admin

from .figure import Figure, Measured, Scale, in_turn
from .publishing import Publisher, client, written

IN_FLIGHT = (1, 8, 64)
_KEYS = {1: "hot key", 64: "64 keys"}
_STAY = {"deleteWhileInactive": False, "maxInactiveDurationSeconds": 3_600, "inactiveTopicDeleteMode": "delete_when_no_subscriptions"}
_SAMPLE = 500
"""Messages of the sidecar that are published again."""


def _figures(keys: int, many: int) -> tuple[Figure, Figure]:
    what, name = f"UpdatePolicy, embedded log, {many} in flight, {_KEYS[keys]}", f"updates-{keys}-{many}"
    targets = many == max(IN_FLIGHT)
    return (
        Figure(name, what, "empty echo", "/s", at_least=0.7 if targets else None),
        Figure(f"{name}-tail", f"p99 of {what}", "its p50", "ms", at_most=2.0 if targets else None),
    )


FIGURES = tuple(figure for keys in _KEYS for many in IN_FLIGHT for figure in _figures(keys, many))
_HOT = "UpdatePolicy, Pulsar, hot key"
PULSAR_FIGURES = (
    Figure("pulsar-rest", f"{_HOT}, 8 in flight", "admin REST, 8 clients", "/s", at_least=15.0),
    Figure("pulsar-bare", f"{_HOT}, 8 in flight, time a call", "bare publish plus echo", "ms", at_most=1.3),
    Figure("pulsar-one", f"{_HOT}, 1 in flight, p50", "bare publish plus echo", "ms", at_most=1.15),
    Figure("pulsar-one-rest", f"{_HOT}, 1 in flight, p50", "admin REST, 1 client", "ms"),
    Figure("pulsar-many", f"{_HOT}, 64 in flight", "empty echo", "/s"),
)


def topics_that_stay(admin_url: str, namespace: str, topics: int) -> None:
    """Creates topics that a broker does not delete although they have no producers or consumers."""
    with Admin(admin_url) as admin:
        admin.call("POST", f"namespaces/{namespace}/inactiveTopicPolicies", _STAY)
        for number in range(topics):
            admin.create_topic(f"{namespace}/bench-{number}")


async def _samples(loads: Mapping[str, Calls], pairs: list[tuple[str, int]], scale: Scale) -> defaultdict[tuple[str, int], list[Sample]]:
    """Measures each load with each number in flight, round by round."""
    samples: defaultdict[tuple[str, int], list[Sample]] = defaultdict(list)
    for calls in loads.values():
        await closed_loop(calls, 8, min(1.0, scale.seconds))  # warms up
    for name, many in in_turn(scale.rounds, pairs):
        samples[name, many].append(await closed_loop(loads[name], many, scale.seconds))
    return samples


def measure(scale: Scale) -> dict[str, Measured]:
    """Measures the embedded log: every load beside the echo, round by round."""

    async def samples(echo: str, service: str) -> defaultdict[tuple[str, int], list[Sample]]:
        async with grpc.aio.insecure_channel(echo) as there, grpc.aio.insecure_channel(service) as here:
            ours = {str(keys): update_calls(here, "public/default", keys) for keys in _KEYS}
            loads = {"echo": echo_calls(there), **ours}
            return await _samples(loads, [(name, many) for many in IN_FLIGHT for name in loads], scale)

    with limits() as echo, embedded() as service:
        found = asyncio.run(samples(echo.address, service.address))
    measured = {}
    for keys in _KEYS:
        for many in IN_FLIGHT:
            ours, limit = found[str(keys), many], found["echo", many]
            measured[f"updates-{keys}-{many}"] = Measured([each.per_second for each in ours], [each.per_second for each in limit])
            measured[f"updates-{keys}-{many}-tail"] = Measured([each.p99_ms for each in ours], [each.p50_ms for each in ours])
    return measured


def measure_pulsar(scale: Scale) -> dict[str, Measured]:
    """Measures a sidecar on a broker."""
    with limits() as echo, pulsar(scale.service_url, scale.admin_url, ()) as target:
        beside = new_namespace(scale.admin_url)
        for namespace in (target.namespace, beside):
            topics_that_stay(scale.admin_url, namespace, 1)
        found = asyncio.run(_pulsar(echo.address, target.address, target.namespace, beside, scale))
    ours, one = found["ours", 8], found["ours", 1]
    bare = [_apart(a) + _apart(b) for a, b in zip(found["publish", 8], found["echo", 8], strict=True)]
    bare_one = [a.p50_ms + b.p50_ms for a, b in zip(found["publish", 1], found["echo", 1], strict=True)]
    return {
        "pulsar-rest": Measured([each.per_second for each in ours], [each.per_second for each in found["rest", 8]]),
        "pulsar-bare": Measured([_apart(each) for each in ours], bare),
        "pulsar-one": Measured([each.p50_ms for each in one], bare_one),
        "pulsar-one-rest": Measured([each.p50_ms for each in one], [each.p50_ms for each in found["rest", 1]]),
        "pulsar-many": Measured([each.per_second for each in found["ours", 64]], [each.per_second for each in found["echo", 64]]),
    }


def _apart(sample: Sample) -> float:
    """Returns the milliseconds per call with 8 in flight."""
    return 8_000 / sample.per_second


async def _pulsar(echo: str, service: str, namespace: str, beside: str, scale: Scale) -> defaultdict[tuple[str, int], list[Sample]]:
    async with (
        grpc.aio.insecure_channel(echo) as there,
        grpc.aio.insecure_channel(service) as here,
        httpx.AsyncClient(base_url=scale.admin_url, timeout=30, trust_env=False) as rest,
    ):
        loads = {"ours": update_calls(here, namespace, 1), "echo": echo_calls(there), "rest": rest_calls(rest, beside)}
        pairs = [(name, many) for many in (1, 8) for name in loads] + [("ours", 64), ("echo", 64)]
        samples = await _samples(loads, pairs, scale._replace(rounds=0))
        with client(scale.service_url) as library:
            bare = Publisher(library, namespace, await asyncio.to_thread(written, library, namespace, _SAMPLE))
            await asyncio.to_thread(bare.publish, 8, min(1.0, scale.seconds))
            for name, many in in_turn(scale.rounds, [("publish", 1), ("publish", 8), *pairs]):
                if name == "publish":
                    sample = await asyncio.to_thread(bare.publish, many, scale.seconds)
                else:
                    sample = await closed_loop(loads[name], many, scale.seconds)
                samples[name, many].append(sample)
    return samples
