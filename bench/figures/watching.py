"""Deliveries to many watchers, beside a raw broadcast of the same bytes; the snapshot of a large namespace, beside its bytes unread.

In each round of deliveries, batches make changes while all watchers follow them (mode EVERY). Then a server on the same stack writes
messages of the same sizes to as many streams, and does nothing else.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import TypeAlias

import grpc
from google.protobuf.duration_pb2 import Duration

from bench.limits import OPTIONS, broadcast, limits
from bench.load import BATCH, IN_FLIGHT, SERVICE, TOPICS, Calls, batch_calls, closed_loop, fill
from bench.targets import SERVE, embedded, running
from topicpolicies import Client
from topicpolicies.v1 import service_pb2

from .figure import Figure, Scale, in_rounds

NAMESPACE = "public/default"
Watch: TypeAlias = grpc.aio.UnaryStreamCall[bytes, bytes]


def watches(channels: Sequence[grpc.aio.Channel], count: int, mode: service_pb2.WatchMode.ValueType) -> list[Watch]:
    """Opens watches of the namespace, over the channels in turn; they have one bookmark, when they are synced."""
    request = service_pb2.WatchPoliciesRequest(namespaces=[NAMESPACE], mode=mode, bookmark_interval=Duration(seconds=3_600))
    opened: list[grpc.aio.UnaryStreamMultiCallable[bytes, bytes]] = [each.unary_stream(f"{SERVICE}WatchPolicies") for each in channels]
    return [opened[number % len(opened)](request.SerializeToString()) for number in range(count)]


@lru_cache(maxsize=1024)
def parsed(message: bytes) -> tuple[int, bool]:
    """Returns the number of changes in a message, and whether it has the SYNCED bookmark. Most watchers receive the same bytes."""
    events = service_pb2.WatchPoliciesResponse.FromString(message).events
    return sum(event.HasField("change") for event in events), any(event.bookmark.synced for event in events)


async def next_message(watch: Watch) -> bytes:
    """Returns the next message.

    Raises:
        RuntimeError: the watch was ended.
    """
    message = await watch.read()
    if not isinstance(message, bytes):
        raise RuntimeError(f"a watch was ended: {await watch.code()}")
    return message


async def synced(watch: Watch) -> None:
    """Reads up to the SYNCED bookmark."""
    while not parsed(await next_message(watch))[1]:
        pass


async def _changes(watch: Watch, count: int) -> list[int]:
    """Reads this many changes. Returns the sizes of the messages that have them."""
    sizes = []
    while count > 0:
        message = await next_message(watch)
        count -= parsed(message)[0]
        sizes.append(len(message))
    return sizes


def measure_deliveries(scale: Scale) -> list[Figure]:
    """Measures both, round by round."""
    with limits() as raw, embedded() as service:
        ours, limit = asyncio.run(_deliveries(service.address, raw.address, scale))
    what = f"deliveries to {scale.watchers:,} watchers, in batches"
    return [Figure(what, "raw broadcast of the same bytes", "/s", ours, limit, at_least=0.9)]


async def _deliveries(service: str, raw: str, scale: Scale) -> tuple[list[float], list[float]]:
    ours, limit, calls = list[float](), list[float](), scale.deliveries // BATCH
    async with grpc.aio.insecure_channel(service, OPTIONS) as here, grpc.aio.insecure_channel(raw, OPTIONS) as there:
        updates = batch_calls(here, NAMESPACE, TOPICS)
        await closed_loop(updates, IN_FLIGHT, count=50)
        for _ in range(scale.rounds):
            watching = watches([here], scale.watchers, service_pb2.WATCH_MODE_EVERY)
            await asyncio.gather(*map(synced, watching))
            seconds, sizes = await _told(updates, calls, watching)
            ours.append(scale.watchers * calls * BATCH / seconds)
            for watch in watching:
                watch.cancel()
            limit.append(scale.watchers * calls * BATCH / await broadcast(there, sizes))
    return ours, limit


async def _told(updates: Calls, calls: int, watching: Sequence[Watch]) -> tuple[float, list[list[int]]]:
    """Makes batches. Returns the seconds until every watcher has all changes, and the sizes of the messages of each."""
    updates.prepare()
    begin = time.perf_counter()
    reading = [asyncio.ensure_future(_changes(watch, calls * BATCH)) for watch in watching]
    await closed_loop(updates, IN_FLIGHT, count=calls)
    sizes = await asyncio.gather(*reading)
    return time.perf_counter() - begin, sizes


def measure_snapshot(scale: Scale) -> list[Figure]:
    """Measures both, round by round; each takes every document."""
    with tempfile.TemporaryDirectory() as directory, running(*SERVE, "--data", f"{directory}/policies.db", "--no-history") as server:
        address = server.address
        asyncio.run(fill(address, NAMESPACE, scale.topics))
        size = sum(event.ByteSize() + 3 for event in _snapshot(address))  # 3: how a record begins

        def read() -> float:
            begin, taken = time.perf_counter(), sum(1 for _ in _snapshot(address))
            if taken != scale.topics:
                raise RuntimeError(f"the client took {taken} documents instead of {scale.topics}")
            return taken / (time.perf_counter() - begin)

        def unread() -> float:
            begin = time.perf_counter()
            _take(address, size)
            return scale.topics / (time.perf_counter() - begin)

        loads = {reader: partial(asyncio.to_thread, reader) for reader in (read, unread)}
        found = asyncio.run(in_rounds(scale.rounds, loads))
    what = f"snapshot of {scale.topics:,} documents, to Client.watch"
    return [Figure(what, "the same bytes, unread", "/s", found[read], found[unread], at_least=0.5)]


def _snapshot(address: str) -> Iterator[service_pb2.WatchEvent]:
    """Yields the changes of a snapshot, as a client has them."""
    with Client(address) as client, client.watch(namespaces=[NAMESPACE], until_synced=True) as watch:
        yield from (event for event in watch if event.HasField("change"))


def _take(address: str, size: int) -> None:
    """Takes so many bytes of a snapshot, and reads none."""
    with grpc.insecure_channel(address, OPTIONS) as channel:
        watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(f"{SERVICE}WatchPolicies")
        call = watch(service_pb2.WatchPoliciesRequest(namespaces=[NAMESPACE]).SerializeToString())
        while size > 0:
            size -= len(next(call))
        call.cancel()
