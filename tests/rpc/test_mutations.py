"""Random and mutated requests to every method: each has a proper status, memory does not grow, and another caller is not affected.

The server authenticates and authorizes its callers, limits what each may use, and exports telemetry to a collector.
"""

from __future__ import annotations

import asyncio
import collections
import gc
import itertools
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from tests.ops.collector import Collector
from tests.stubs import async_stub
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import GetPolicyRequest, UpdatePolicyRequest
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, Limits, ServerConfig, TelemetryConfig, parse_address
from topicpolicies_server.rpc.calls import Call
from topicpolicies_server.rpc.server import Server

from .fuzzed_callers import OTHER, REFUSALS, asking, bearer
from .fuzzing import FAULTS, Fuzz
from .mutations import NAMESPACES, Mutations

OURS = "persistent://acme/undisturbed/orders"
MEGABYTE = 1 << 20
PATIENCE_SECONDS = 20.0
LONGEST_TURN_SECONDS = 1.0
"""Seconds of processor time, which do not depend on how busy the machine is."""
CLUSTER = """
cluster = "us"
[clusters]
us = []
[tenants]
acme = ["us"]
[broker]
"""


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Yields a collector that receives the server's telemetry."""
    with Collector() as collector:
        yield collector


@pytest.fixture
async def fuzzed(tmp_path: Path, collector: Collector) -> AsyncIterator[Server]:
    """Yields a server with all features. Its caches have small bounds, which the first quarter of the requests reaches."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER + "".join(f'[namespaces."{namespace}"]\n' for namespace in NAMESPACES))
    limits = replace(
        Limits(),
        bookmark_interval_seconds=1.0,
        drain_seconds=2.0,
        max_loaded_namespaces=48,
        max_every_backlog_changes=64,
        max_retained_events=1_000,
        update_timeout_seconds=3.0,
        max_calls_per_principal=20,
        max_watches_per_principal=8,
        max_changes_per_second_per_principal=400.0,
    )
    authentication, authorization = asking(tmp_path)
    config = ServerConfig(
        log=EmbeddedLogConfig(path=tmp_path / "p.db", cluster_file=cluster),
        listen=parse_address("127.0.0.1:0"),
        history=HistoryConfig(path=tmp_path / "h.db", megabytes=8),
        limits=limits,
        authentication=authentication,
        authorization=authorization,
        telemetry=TelemetryConfig(endpoint=collector.endpoint, trace_ratio=0.1),
    )
    async with Server(config) as running:
        yield running


class Ended:
    """An observer of the server (``rpc.calls.Observer``) that records how calls ended there, whatever the client received."""

    def __init__(self) -> None:
        self.methods: collections.Counter[str] = collections.Counter()
        self.faults: list[str] = []

    def ended(self, call: Call) -> None:
        """Records the end of a call."""
        self.methods[call.method] += 1
        if call.error is not None and call.error.kind.name in {fault.name for fault in FAULTS}:
            self.faults.append(f"{call.method}: {call.error}")


class Undisturbed:
    """Another caller with a connection of its own: changes and reads one after the other, all of which must succeed."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.taken: list[float] = []
        """For each change with the read after it, the seconds that they took."""

    async def call(self, stop: asyncio.Event) -> None:
        """Calls until ``stop`` is set."""
        async with grpc.aio.insecure_channel(self._address) as channel:
            stub = async_stub(channel)
            who = (bearer(OTHER),)
            for value in itertools.cycle(range(1_000)):
                if stop.is_set():
                    return
                began = time.perf_counter()
                change = UpdatePolicyRequest(topic=OURS, policies=TopicPolicies(max_producer_per_topic=value))
                await stub.UpdatePolicy(change, timeout=PATIENCE_SECONDS, metadata=who)
                read = await stub.GetPolicy(GetPolicyRequest(topic=OURS), timeout=PATIENCE_SECONDS, metadata=who)
                self.taken.append(time.perf_counter() - began)
                assert read.policies.max_producer_per_topic == value
                await asyncio.sleep(0.01)

    async def call_for(self, seconds: float) -> None:
        """Calls for so many seconds."""
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, stop.set)
        await self.call(stop)


class Turns:
    """Measures the longest turn of the event loop that the server shares with its callers, in processor time of its thread."""

    def __init__(self) -> None:
        self.longest = 0.0
        """The longest turn, in seconds."""
        self._at = time.thread_time()

    async def look(self) -> None:
        """Measures turns until it is cancelled."""
        while True:
            self.rest()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, time.thread_time() - self._at)

    def rest(self) -> None:
        """Begins a new turn, so that the time until now is not counted."""
        self._at = time.thread_time()


def resident() -> int:
    """Returns the bytes of this process, with the server and its callers, in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def objects() -> int:
    """Returns how many objects Python's garbage collector tracks."""
    gc.collect()
    return len(gc.get_objects())


async def fuzz(server: Server, seed: int, count: int, logged_errors: Callable[[], list[str]], calm_seconds: float) -> None:
    """Sends so many requests, and checks their outcomes."""
    before = Undisturbed(server.address)
    await before.call_for(0.2)
    before.taken.clear()  # the namespace is loaded now
    await before.call_for(calm_seconds)
    stop, ended, began = asyncio.Event(), Ended(), time.process_time()
    meanwhile, turns = Undisturbed(server.address), Turns()
    async with grpc.aio.insecure_channel(server.address) as channel, asyncio.TaskGroup() as group:
        fuzz = Fuzz(channel, seed)
        server.calls.observers = (*server.calls.observers, ended)
        group.create_task(meanwhile.call(stop))
        looking = group.create_task(turns.look())
        await fuzz.send(count // 4)  # until the caches are full
        memory, held = resident(), objects()
        turns.rest()
        await fuzz.send(count - count // 4)
        for _ in range(10):  # each method has accepted something at last, whatever the chance
            if all(fuzz.accepted[name] for name in Mutations(0).calls):
                break
            await fuzz.send(count // 4)
        await fuzz.crowd(2 * server.config.limits.max_calls_per_principal)
        looking.cancel()
        grown, kept = resident() - memory, objects() - held
        stop.set()
    print(f"\n{fuzz.sent:,} requests in {time.process_time() - began:.0f} s of processor time")
    print(f"memory grew by {grown / MEGABYTE:.1f} MiB, objects by {kept:,}")
    print(f"another caller's changes and reads, without them: {_summary(before.taken)}; with them: {_summary(meanwhile.taken)}")
    print(f"the longest turn of the loop: {1000 * turns.longest:.0f} ms of processor time")
    for (name, status, reason), number in sorted(fuzz.statuses.items()):
        print(f"  {name} {status} {reason}: {number}")
    assert turns.longest < LONGEST_TURN_SECONDS, "a turn of the event loop holds up others"
    assert max(meanwhile.taken) < PATIENCE_SECONDS / 2
    assert {reason for _, _, reason in fuzz.statuses} >= REFUSALS, "some kind of refusal did not come"
    assert fuzz.faults == []
    assert ended.faults == []
    assert logged_errors() == []
    assert fuzz.sent >= count
    every = {*Mutations(0).calls}
    assert {*ended.methods} == every, "a method was not called"
    assert {name for name in every if fuzz.accepted[name]} == every
    assert {name for name in every if fuzz.refused[name]} == every
    for _ in range(400):
        if not len(server.calls):
            break
        await asyncio.sleep(0.05)
    assert len(server.calls) == 0
    assert sum(namespace.watchers for namespace in server.registry.namespaces()) == 0
    assert grown < 32 * MEGABYTE
    assert kept < 30_000


def _summary(taken: list[float]) -> str:
    taken = sorted(taken)
    parts = (f"{name} {1000 * taken[int(len(taken) * part)]:.1f} ms" for name, part in (("median", 0.5), ("p99", 0.99)))
    return f"{len(taken):,} times, {', '.join(parts)}, the longest {1000 * taken[-1]:.0f} ms"


@pytest.fixture
def logged_errors(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Returns a function that returns the errors in the server's log; mistakes of a caller must not be among them."""
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.slow
async def test_hundreds_of_mutated_requests_are_refused_or_served_and_do_not_affect_another_caller(
    fuzzed: Server, logged_errors: Callable[[], list[str]]
) -> None:
    await fuzz(fuzzed, 15, 500, logged_errors, 1.0)


@pytest.mark.evidence
@pytest.mark.timeout(900)
async def test_twenty_thousand_mutated_requests_are_refused_or_served_and_do_not_affect_another_caller(
    fuzzed: Server, logged_errors: Callable[[], list[str]]
) -> None:
    await fuzz(fuzzed, 1_515, 20_000, logged_errors, 3.0)
