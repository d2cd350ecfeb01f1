"""How fast the snapshot of a namespace of 100,000 documents reaches a Python client.

    python3 dev.py bench snapshot

The documents are written into an embedded log; a server opens it, and loads the namespace before the measurement. In each round every kind
of reader takes the whole snapshot, one after the other. Beside them stand two limits: the same bytes received and not decoded, and the
client's own work on documents that come one per message, as they did before watches sent batches, from a server that does nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
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
from bench.harness.broadcast import METHOD
from bench.harness.targets import running
from bench.harness.watching import METHOD as WATCH_POLICIES
from bench.verdicts import print_verdict
from topicpolicies import AsyncClient, Changed, Client
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import SCOPE_LOCAL
from topicpolicies.watch_session import WatchSession
from topicpolicies_server.logs.sqlite import SqliteLog

BEFORE = 8_300.0
"""Documents per second that reached a Python client before watches sent batches, on a quiet machine."""
_REACH = 5.0
"""The target, against one document per message in the same run: the machine's speed drifts."""
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


def readers(address: str, limit: str, documents: int) -> dict[str, Reader]:
    """Returns all kinds of readers by name; ``limit`` is the address of the raw broadcast."""
    request = service_pb2.WatchPoliciesRequest(namespaces=[NAMESPACE], end_when_synced=True)

    def client() -> int:
        with Client(address) as client, client.watch(namespaces=[NAMESPACE], end_when_synced=True) as watch:
            return sum(isinstance(event, Changed) for event in watch)

    def async_client() -> int:
        async def read() -> int:
            async with AsyncClient(address) as client, client.watch(namespaces=[NAMESPACE], end_when_synced=True) as watch:
                return sum([isinstance(event, Changed) async for event in watch])

        return asyncio.run(read())

    def cache() -> int:
        with Client(address) as client, client.cache(namespaces=[NAMESPACE]) as cache:
            cache.wait_synced(120)
            return len(cache.documents())

    def unread() -> int:
        with grpc.insecure_channel(address, _OPTIONS) as channel:
            watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(WATCH_POLICIES)
            return documents if sum(len(message) for message in watch(request.SerializeToString())) else 0

    def one_a_message() -> int:
        event = service_pb2.WatchPoliciesResponse()
        with Client(address) as client, client.watch(namespaces=[NAMESPACE], end_when_synced=True) as watch:
            told = next(each for each in watch if isinstance(each, Changed))
        change = event.events.add(namespace=NAMESPACE).change
        change.document.topic, change.document.scope, change.document.version = told.document.topic, SCOPE_LOCAL, told.document.version
        change.document.policies.CopyFrom(told.document.policies or change.document.policies)
        change.partition, change.position = told.partition, told.position
        size = event.ByteSize()
        prepared = event.SerializeToString()
        session = WatchSession(namespaces=[NAMESPACE])
        session.connect(0.0)
        with grpc.insecure_channel(limit) as channel:
            watch_all: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(METHOD)
            taken = 0
            for _ in watch_all(f"1 {documents} {size}".encode()):
                session.received(service_pb2.WatchPoliciesResponse.FromString(prepared), 0.0)
                taken += isinstance(session.next(), Changed)
        return taken

    return {
        "Client.watch": client,
        "AsyncClient.watch": async_client,
        "PolicyCache": cache,
        "one document a message": one_a_message,
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


def show(rows: list[Row], documents: int, console: Console) -> bool:
    """Prints a table. Returns whether the target was reached."""
    singles = next(row for row in rows if row.name == "one document a message").per_second
    table = Table(title=f"The snapshot of {documents:,} documents, median over the rounds")
    for column in ("reader", "documents /s", "against one a message"):
        table.add_column(column, justify="left" if column == "reader" else "right")
    gains = [statistics.median(each / single for each, single in zip(row.per_second, singles, strict=True)) for row in rows]
    for row, gain in zip(rows, gains, strict=True):
        table.add_row(row.name, f"{statistics.median(row.per_second):,.0f}", f"{gain:.2f}")
    console.print(table)
    gain = gains[0]
    print_verdict(console, f"{rows[0].name}, against one document a message", gain, f">= {_REACH:.0f}", reached=gain >= _REACH)
    console.print(f"Against the {BEFORE:,.0f} documents a second of before: {statistics.median(rows[0].per_second) / BEFORE:.2f}")
    return gain >= _REACH


def main() -> int:
    """Measures and prints. Returns 1 if the target was missed."""
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
        with running(*serve) as service, running("-m", "bench.harness.broadcast", "PORT") as limit:
            kinds = readers(service.address, limit.address, options.documents)
            kinds["Client.watch"]()  # loads the namespace
            rows = measure(kinds, options.documents, options.rounds)
    return 0 if show(rows, options.documents, Console()) else 1


if __name__ == "__main__":
    sys.exit(main())
