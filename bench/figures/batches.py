"""Batches of updates on the embedded log, 64 a call, beside 64 clients that put as much into etcd on the same disk."""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections import deque
from typing import NamedTuple

import grpc
import uvloop

from bench.batching import BATCH, TOPICS, batches, send
from bench.framing import records
from bench.load import closed_loop
from bench.targets import Program, sqlite
from topicpolicies.v1 import service_pb2

from . import etcd
from .figure import Figure, Measured, Want
from .scale import Say, Scale

SIZE = 64
"""Updates per call, and clients of etcd."""
FIGURES = (Figure("batches", "BatchUpdatePolicies, embedded log, 64 updates a call", "etcd, put by 64 clients", "/s", Want(at_least=1.0)),)
_AT_MOST_PER_SECOND = 60_000
_NAMESPACE = "public/default"


class _Rate(NamedTuple):
    per_second: float
    server_us: float


def measure(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures both, round by round; only the service if etcd is not installed."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, sqlite() as target:
        assert isinstance(target.program, Program), "started for this run"
        if not etcd.version():
            ours, _ = runner.run(_rounds(target.program, None, scale, say))
            return {"batches": Measured([each.per_second for each in ours], missing="etcd is not installed (apt-get install etcd-server)")}
        with etcd.etcd() as program:
            ours, limits = runner.run(_rounds(target.program, program, scale, say))
    us, etcd_us = (statistics.median(each.server_us for each in rates) for rates in (ours, limits))
    note = f"the server's processor time for one: {us:.0f} us, etcd's {etcd_us:.0f} us; etcd {etcd.version()}"
    return {"batches": Measured([each.per_second for each in ours], [each.per_second for each in limits], note)}


async def _rounds(service: Program, beside: Program | None, scale: Scale, say: Say) -> tuple[list[_Rate], list[_Rate]]:
    source = batches(_NAMESPACE, TOPICS, SIZE)
    keys, value_bytes = like_the_changes_of(next(source))
    ours: list[_Rate] = []
    limits: list[_Rate] = []
    async with grpc.aio.insecure_channel(service.address) as here, grpc.aio.insecure_channel(beside.address if beside else "") as there:

        async def update() -> _Rate:
            ready = deque(itertools.islice(source, 1 + int(_AT_MOST_PER_SECOND * scale.seconds) // SIZE))
            used = service.processor_seconds
            changes, took = await send(here, BATCH, ready, SIZE, scale.seconds)
            return _Rate(changes / took, (service.processor_seconds - used) / changes * 1e6)

        async def put() -> _Rate:
            assert beside is not None, "asked for only then"
            used = beside.processor_seconds
            sample = await closed_loop(puts, SIZE, scale.seconds)
            return _Rate(sample.per_second, (beside.processor_seconds - used) / sample.calls * 1e6)

        await update()  # warms up the server
        if beside is not None:
            await etcd.elected(there)
            puts = etcd.put_calls(there, keys, value_bytes)
            await put()
        for number in range(scale.rounds):
            say(f"round {number + 1} of {scale.rounds}")
            for mine in (True, False) if number % 2 else (False, True):
                if mine:
                    ours.append(await update())
                elif beside is not None:
                    limits.append(await put())
    return ours, limits


def like_the_changes_of(message: bytes) -> tuple[list[bytes], int]:
    """Returns what makes a put carry as much as a change: the topics as keys, and the size in bytes of the rest of a change."""
    changes = service_pb2.BatchUpdatePoliciesRequest.FromString(message).changes
    keys = [change.update.topic.encode() for change in changes]
    sizes = [end - begin for begin, end in records(message)]
    return keys, max(1, int(statistics.mean(size - len(key) for size, key in zip(sizes, keys, strict=True))))
