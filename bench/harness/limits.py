"""The best that this machine can do, measured in the same run as the figures that are compared with it."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import grpc

from bench.embedded_log import Waiting, updates
from bench.pulsar_log import in_namespace
from topicpolicies_server.logs.change_log import ChangeLog
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog
from topicpolicies_server.logs.sqlite import SqliteLog

from .broadcast import METHOD
from .targets import Target, running

_APPENDS = 4_000
_IN_FLIGHT = 64
_MESSAGE_BYTES = 250
"""About the size of one change of a small document."""


class Limit(NamedTuple):
    """One limit."""

    name: str
    per_second: float
    about: str


def log_limit(target: Target) -> Limit:
    """Measures the log alone, without gRPC and the service: pipelined appends, 64 in flight."""
    if target.service_url:
        return Limit("log", asyncio.run(_appends(target)), f"pipelined publishes to Pulsar, {_IN_FLIGHT} in flight")
    return Limit("log", asyncio.run(_appends(target)), f"appends to the SQLite log, {_IN_FLIGHT} in flight")


async def _appends(target: Target) -> float:
    async with _log(target) as (change_log, namespace):
        sink = Waiting()
        log = await change_log.open(namespace, sink)
        await sink.ready.wait()
        loop = asyncio.get_running_loop()
        events = iter([in_namespace(namespace, event) for event in updates(_APPENDS + 100, 100)])

        async def append(most: int) -> None:
            for event in events:
                assert event.stamp is not None
                done = sink.waiters[event.stamp.event_id] = loop.create_future()
                log.append(event)
                await done
                most -= 1
                if most == 0:
                    return

        await append(100)  # the first appends open a producer or a file
        began = time.perf_counter()
        await asyncio.gather(*(append(-1) for _ in range(_IN_FLIGHT)))
        return _APPENDS / (time.perf_counter() - began)


@contextlib.asynccontextmanager
async def _log(target: Target) -> AsyncIterator[tuple[ChangeLog | PulsarLog, str]]:
    if target.service_url:
        from .targets import new_namespace  # noqa: PLC0415 - needs a broker

        pulsar = PulsarLog(target.service_url, target.admin_url, limits=PulsarLimits(in_flight=2_000))
        try:
            yield pulsar, await asyncio.to_thread(new_namespace, target.admin_url)
        finally:
            await pulsar.close()
        return
    with tempfile.TemporaryDirectory() as directory:
        embedded = SqliteLog(Path(directory) / "limit.db")
        await embedded.start()
        try:
            yield embedded, "bench/limit"
        finally:
            await embedded.close()


def broadcast_limit(watchers: int, messages: int) -> Limit:
    """Measures deliveries of prepared bytes to this many server streams."""
    with running("-m", "bench.harness.broadcast", "PORT") as program:
        rate = asyncio.run(_deliveries(program.address, watchers, messages))
    return Limit("broadcast", rate, f"deliveries of {_MESSAGE_BYTES} prepared bytes to {watchers} streams")


async def _deliveries(address: str, watchers: int, messages: int) -> float:
    async with grpc.aio.insecure_channel(address) as channel:
        watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(METHOD)
        first: list[float] = []

        async def one() -> None:
            async for _ in watch(f"{watchers} {messages} {_MESSAGE_BYTES}".encode()):
                if not first:
                    first.append(time.perf_counter())

        await asyncio.gather(*(one() for _ in range(watchers)))
        return watchers * messages / (time.perf_counter() - first[0])
