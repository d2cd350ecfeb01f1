"""How fast the snapshot of a namespace of 100,000 documents reaches a Python client.

    python3 dev.py bench snapshot

The documents are written into an embedded log; a server opens it, and loads the namespace before the measurement. In each round every kind
of reader takes the whole snapshot, one after the other. Beside them stands the limit: the same bytes received and not decoded.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import grpc
from rich.console import Console
from rich.table import Table

from bench.embedded_log import NAMESPACE, Waiting, updates
from bench.harness.watching import METHOD as WATCH_POLICIES
from bench.targets import running
from topicpolicies import AsyncClient, Client
from topicpolicies.v1 import service_pb2
from topicpolicies_server.logs.sqlite import SqliteLog

_OPTIONS = (("grpc.max_receive_message_length", 64 << 20),)
Reader = Callable[[], int]
"""Takes the snapshot. Returns the number of documents."""


class Row(NamedTuple):
    """One kind of reader."""

    name: str
    per_second: list[float]
    """Documents per second, by round."""


async def fill(path: Path, documents: int) -> None:
    """Writes a log with this many documents."""
    change_log = SqliteLog(path, in_flight_limit=documents)
    sink = Waiting()
    log = await change_log.open(NAMESPACE, sink)
    await sink.ready.wait()
    loop = asyncio.get_running_loop()
    for number, event in enumerate(updates(documents, documents)):
        assert event.stamp is not None, "it was just made"
        sink.waiters[event.stamp.event_id] = loop.create_future()
        log.append(event)
        if number % 256 == 0:
            await asyncio.sleep(0)
    await log.close()
    await change_log.close()


def readers(address: str, documents: int) -> dict[str, Reader]:
    """Returns all kinds of readers by name."""
    request = service_pb2.WatchPoliciesRequest(namespaces=[NAMESPACE])
    with Client(address) as once, once.watch(namespaces=[NAMESPACE], until_synced=True) as watch:  # loads the namespace
        size = sum(event.ByteSize() + 3 for event in watch if event.HasField("change"))  # 3: how a record begins

    def client() -> int:
        with Client(address) as client, client.watch(namespaces=[NAMESPACE], until_synced=True) as watch:
            return sum(event.HasField("change") for event in watch)

    def async_client() -> int:
        async def read() -> int:
            async with AsyncClient(address) as client, client.watch(namespaces=[NAMESPACE], until_synced=True) as watch:
                return sum([event.HasField("change") async for event in watch])

        return asyncio.run(read())

    def cache() -> int:
        with Client(address) as client, client.cache(namespaces=[NAMESPACE]) as cache:
            cache.wait_synced(120)
            return len(cache.documents())

    def unread() -> int:
        with grpc.insecure_channel(address, _OPTIONS) as channel:
            watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(WATCH_POLICIES)
            call = watch(request.SerializeToString())
            left = size
            for message in call:
                left -= len(message)
                if left <= 0:
                    break
            call.cancel()
            return documents

    return {
        "Client.watch": client,
        "AsyncClient.watch": async_client,
        "PolicyCache": cache,
        "the bytes, unread": unread,
    }


def measure(kinds: dict[str, Reader], documents: int, rounds: int) -> list[Row]:
    """Measures all kinds, round by round."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, reader in kinds.items():
            begin = time.perf_counter()
            taken = reader()
            found[name].append(taken / (time.perf_counter() - begin))
            if taken != documents:
                raise AssertionError(f"{name} took {taken} documents instead of {documents}")
    return [Row(name, speeds) for name, speeds in found.items()]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "policies.db"
        asyncio.run(fill(data, options.documents))
        serve = (
            "-m",
            "topicpolicies_server",
            "serve",
            "--listen",
            "ADDRESS",
            "--log-level",
            "warning",
            "--data",
            str(data),
            "--no-history",
        )
        with running(*serve) as service:
            rows = measure(readers(service.address, options.documents), options.documents, options.rounds)
    table = Table("reader", "documents /s", title=f"The snapshot of {options.documents:,} documents, median over the rounds")
    for row in rows:
        table.add_row(row.name, f"{statistics.median(row.per_second):,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
