"""Updates, one a call and 64 a call.

On the embedded log single ones stand beside an empty echo on the same stack, and batches beside 64 clients that put as much into etcd on
the same disk. On a broker they stand beside the broker's own admin API, beside a bare publish plus an echo, and beside bare publishes.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from functools import partial

import grpc
import httpx

from bench.limits import limits
from bench.load import (
    BATCH,
    IN_FLIGHT,
    TOPICS,
    Sample,
    batch_calls,
    batches,
    closed_loop,
    echo_calls,
    fill,
    loaded,
    rest_calls,
    update_calls,
)
from bench.targets import Program, embedded, new_namespace, pulsar
from tests.broker.admin import Admin
from topicpolicies.v1 import service_pb2

from . import etcd
from .figure import Figure, Scale, in_rounds
from .publishing import Publisher, client, written

_KEYS = {"hot key": 1, "64 keys": 64}
_NAMESPACE = "public/default"
_STAY = {"deleteWhileInactive": False, "maxInactiveDurationSeconds": 3_600, "inactiveTopicDeleteMode": "delete_when_no_subscriptions"}
_PIPELINED = 1_000
_SAMPLE = 500
"""Messages of the sidecar that are published again."""


def measure(scale: Scale) -> list[Figure]:
    """Measures the embedded log."""
    with ExitStack() as stack:
        echo, service = stack.enter_context(limits()), stack.enter_context(embedded())
        beside = stack.enter_context(etcd.etcd()) if etcd.version() else None
        found = asyncio.run(_embedded(echo, service, beside, scale))
    rates = {name: [sample.per_second for sample, _ in each] for name, each in found.items()}
    figures, tails = [], []
    for keys in _KEYS:
        what, samples = f"UpdatePolicy, embedded log, {BATCH} in flight, {keys}", [sample for sample, _ in found[keys]]
        figures.append(Figure(what, "empty echo", "/s", rates[keys], rates["echo"], at_least=0.7))
        p99, p50 = [each.p99_ms for each in samples], [each.p50_ms for each in samples]
        tails.append(Figure(f"p99 of {what}", "its p50", "ms", p99, p50, at_most=2.0))
    in_batches = Figure(f"BatchUpdatePolicies, embedded log, {BATCH} updates a call", "etcd, put by 64 clients", "/s", at_least=1.0)
    if beside is None:
        return [*figures, *tails, in_batches._replace(note="etcd is not installed (apt-get install etcd-server)")]
    us, etcd_us = (statistics.median(used for _, used in found[name]) for name in ("batches", "etcd"))
    note = f"the server's processor time for one: {us / BATCH:.0f} us, etcd's {etcd_us:.0f} us"
    return [*figures, *tails, in_batches._replace(ours=[each * BATCH for each in rates["batches"]], limit=rates["etcd"], note=note)]


async def _embedded(echo: Program, service: Program, beside: Program | None, scale: Scale) -> Mapping[str, list[tuple[Sample, float]]]:
    """Returns the samples of each load, each with the processor time per call."""
    await fill(service.address, _NAMESPACE, TOPICS)
    async with AsyncExitStack() as stack:
        there, here = [await stack.enter_async_context(grpc.aio.insecure_channel(each.address)) for each in (echo, service)]
        calls = {"echo": (echo, echo_calls(there), BATCH)}
        calls |= {name: (service, update_calls(here, _NAMESPACE, keys), BATCH) for name, keys in _KEYS.items()}
        if beside is not None:
            puts = etcd.put_calls(await stack.enter_async_context(grpc.aio.insecure_channel(beside.address)), *_like_the_changes())
            calls |= {"batches": (service, batch_calls(here, _NAMESPACE), IN_FLIGHT), "etcd": (beside, puts, BATCH)}
        for _, each, in_flight in calls.values():
            await closed_loop(each, in_flight, min(1.0, scale.seconds))  # warms up
        return await in_rounds(scale.rounds, {name: partial(loaded, *each, scale.seconds) for name, each in calls.items()})


def _like_the_changes() -> tuple[list[str], int]:
    """Returns what makes a put carry as much as a change: the topics as keys, and the size in bytes of the rest of a change."""
    changes = service_pb2.BatchUpdatePoliciesRequest.FromString(next(batches(_NAMESPACE, TOPICS))).changes
    return [each.update.topic for each in changes], int(statistics.mean(each.ByteSize() - len(each.update.topic) for each in changes))


def measure_pulsar(scale: Scale) -> list[Figure]:
    """Measures a sidecar on a broker; the bare publishes are of messages that it wrote."""
    with limits() as echo, pulsar(scale.service_url, scale.admin_url, ()) as target:
        beside = new_namespace(scale.admin_url)
        with Admin(scale.admin_url) as admin:
            for namespace, topics in ((target.namespace, TOPICS), (beside, 1)):
                # Otherwise the broker deletes topics without producers and consumers.
                admin.call("POST", f"namespaces/{namespace}/inactiveTopicPolicies", _STAY)
                for number in range(topics):
                    admin.create_topic(f"{namespace}/bench-{number}")
        found, note = asyncio.run(_pulsar(echo.address, target.address, target.namespace, beside, scale))
    rates = {name: [sample.per_second for sample in each] for name, each in found.items()}
    in_batches = [each * BATCH for each in rates["batches", IN_FLIGHT]]
    apart = {name: [8_000 / rate for rate in rates[name, 8]] for name in ("ours", "bare", "echo")}
    alone = {name: [sample.p50_ms for sample in found[name, 1]] for name in ("ours", "bare", "echo")}

    def hot_key(what: str, of: Mapping[str, list[float]], most: float) -> Figure:
        limit = [bare + echo for bare, echo in zip(of["bare"], of["echo"], strict=True)]
        return Figure(f"UpdatePolicy, Pulsar, hot key, {what}", "bare publish plus echo", "ms", of["ours"], limit, at_most=most)

    return [
        Figure(
            "UpdatePolicy, Pulsar, hot key, 8 in flight", "admin REST, 8 clients", "/s", rates["ours", 8], rates["rest", 8], at_least=15.0
        ),
        hot_key("8 in flight, time a call", apart, 1.3),
        hot_key("1 in flight, p50", alone, 1.15),
        Figure(
            "BatchUpdatePolicies, Pulsar",
            "bare publishes of the same bytes",
            "/s",
            in_batches,
            rates["bare", _PIPELINED],
            at_least=0.5,
            note=note,
        ),
    ]


async def _pulsar(echo: str, service: str, namespace: str, beside: str, scale: Scale) -> tuple[Mapping[tuple[str, int], list[Sample]], str]:
    """Returns the samples by the load and how many calls are in flight, and the size of a message in words."""
    await fill(service, namespace, TOPICS)
    async with (
        grpc.aio.insecure_channel(echo) as there,
        grpc.aio.insecure_channel(service) as here,
        httpx.AsyncClient(base_url=scale.admin_url, timeout=30, trust_env=False) as rest,
    ):
        with client(scale.service_url) as library:
            messages = await asyncio.to_thread(written, library, namespace, _SAMPLE)
            bare = Publisher(library, namespace, messages)

            async def publish(in_flight: int, seconds: float) -> Sample:
                return await asyncio.to_thread(bare.publish, in_flight, seconds)

            calls: dict[str, Callable[[int, float], Awaitable[Sample]]] = {
                "ours": partial(closed_loop, update_calls(here, namespace, 1)),
                "echo": partial(closed_loop, echo_calls(there)),
                "bare": publish,
                "rest": partial(closed_loop, rest_calls(rest, beside)),
                "batches": partial(closed_loop, batch_calls(here, namespace)),
            }
            for each in calls.values():
                await each(8, min(1.0, scale.seconds))
            pairs = [("ours", 1), ("echo", 1), ("bare", 1), ("ours", 8), ("echo", 8), ("bare", 8), ("rest", 8)]
            pairs += [("batches", IN_FLIGHT), ("bare", _PIPELINED)]
            found = await in_rounds(scale.rounds, {pair: partial(calls[pair[0]], pair[1], scale.seconds) for pair in pairs})
        document = statistics.mean(len(each.data()) for each in messages)
        size = document + statistics.mean(sum(len(name) + len(value) for name, value in each.properties().items()) for each in messages)
    return found, f"{size:,.0f} bytes a message, of which {document:,.0f} are the document"
