"""Random and mutated requests over every call: each has a fitting status, memory is flat, and another caller sees nothing of it."""

from __future__ import annotations

import asyncio
import collections
import gc
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from tests.stubs import async_stub
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import GetPolicyRequest, UpdatePolicyRequest
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.rpc.call import Call
from topicpolicies_server.rpc.server import Server

from .fuzzing import FAULTS, Fuzz
from .mutations import NAMESPACES, Mutations

OURS = "persistent://acme/undisturbed/orders"
MEGABYTE = 1 << 20
CLUSTER = """
cluster = "us"
[clusters]
us = []
[tenants]
acme = ["us"]
[broker]
"""


@pytest.fixture
async def fuzzed(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with everything that can be called. What it keeps in memory has small bounds, so that it has met them after a quarter."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER + "".join(f'[namespaces."{namespace}"]\n' for namespace in NAMESPACES))
    limits = replace(
        Limits(),
        bookmark_interval_seconds=1.0,
        drain_seconds=2.0,
        max_loaded_namespaces=48,
        max_every_backlog_changes=64,
        max_retained_events=1_000,
        update_timeout_seconds=0.5,
    )
    config = ServerConfig(
        log=EmbeddedLogConfig(path=tmp_path / "p.db", cluster_file=cluster),
        listen=parse_address("127.0.0.1:0"),
        history=HistoryConfig(path=tmp_path / "h.db", max_bytes=8 * MEGABYTE),
        limits=limits,
    )
    async with Server(config) as running:
        yield running


class Ended:
    """Told by the server of every call (``rpc.calls.Observer``): how it ended there, whatever the client made of it."""

    def __init__(self) -> None:
        self.methods: collections.Counter[str] = collections.Counter()
        self.faults: list[str] = []

    def began(self, call: Call) -> None:
        """It has begun."""

    def ended(self, call: Call) -> None:
        """It has ended."""
        self.methods[call.method] += 1
        if call.error is not None and call.error.kind.name in {fault.name for fault in FAULTS}:
            self.faults.append(f"{call.method}: {call.error}")


async def undisturbed(address: str, stop: asyncio.Event) -> list[float]:
    """Another caller on a connection of its own: changes and reads, one after the other, all of which succeed; their seconds."""
    taken: list[float] = []
    async with grpc.aio.insecure_channel(address) as channel:
        stub = async_stub(channel)
        while not stop.is_set():
            value = len(taken) % 1_000
            began = time.perf_counter()
            await stub.UpdatePolicy(UpdatePolicyRequest(topic=OURS, policies=TopicPolicies(max_producer_per_topic=value)), timeout=20)
            read = await stub.GetPolicy(GetPolicyRequest(topic=OURS), timeout=20)
            taken.append(time.perf_counter() - began)
            assert read.documents[0].policies.max_producer_per_topic == value
            await asyncio.sleep(0.01)
    return taken


def resident() -> int:
    """Bytes of this process in memory, the server and its callers."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def objects() -> int:
    """What Python holds."""
    gc.collect()
    return len(gc.get_objects())


async def fuzz(server: Server, seed: int, count: int, told: Callable[[], list[str]]) -> None:
    """Sends so many requests, and looks at what came of them."""
    stop, ended, began = asyncio.Event(), Ended(), time.process_time()
    async with grpc.aio.insecure_channel(server.address) as channel:
        fuzz = Fuzz(channel, seed)
        server.calls.observers = (*server.calls.observers, ended)
        other = asyncio.create_task(undisturbed(server.address, stop))
        await fuzz.send(count // 4)  # until caches have what they hold
        memory, held = resident(), objects()
        await fuzz.send(count - count // 4)
        grown, kept = resident() - memory, objects() - held
        stop.set()
        taken = sorted(await other)
    print(f"\n{fuzz.sent:,} requests in {time.process_time() - began:.0f} s of processor time")
    print(f"memory grew by {grown / MEGABYTE:.1f} MiB, objects by {kept:,}")
    print(f"another caller, {len(taken):,} times a change and a read: median {_ms(taken, 0.5)}, p99 {_ms(taken, 0.99)}")
    for (name, status, reason), number in sorted(fuzz.statuses.items()):
        print(f"  {name} {status} {reason}: {number}")
    assert fuzz.faults == []
    assert ended.faults == []
    assert told() == []
    assert fuzz.sent == count
    every = {*Mutations(0).calls}
    assert {*ended.methods} == every, "each call has come to the server"
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


def _ms(taken: list[float], part: float) -> str:
    return f"{1000 * taken[int(len(taken) * part)]:.1f} ms"


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the server complains of in its log: a caller's mistakes are nothing to complain of."""
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_thousand_mutated_requests_are_refused_or_done_and_disturb_nobody(fuzzed: Server, told: Callable[[], list[str]]) -> None:
    await fuzz(fuzzed, 15, 1_000, told)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_twenty_thousand_mutated_requests_are_refused_or_done_and_disturb_nobody(
    fuzzed: Server, told: Callable[[], list[str]]
) -> None:
    await fuzz(fuzzed, 1_515, 20_000, told)
