"""Many namespaces at once: how long a server takes to load them, how much memory they take, and what they cost while nothing happens.

    python -m bench.namespaces [--namespaces 1000] [--topics 1000] [--pulsar] [--idle 60]

A log is written with this many topics in each of this many namespaces. A server starts with nothing but the log, and then again with its
checkpoints. Each time, one watch of all namespaces is opened, which loads them, and read until each has been sent as a whole; then one
topic of each of up to a thousand namespaces is read, one after the other; then there are no calls for a while. The embedded log is the
default; with ``--pulsar`` a broker is started.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from rich.console import Console
from rich.table import Table

from bench.embedded_log import Waiting
from bench.figures.conditions import here
from bench.figures.filling import an_update
from bench.figures.processors import seconds_of
from bench.targets import Program
from tests.broker.admin import Admin
from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.logs.pulsar.foreign import ForeignWriter
from tests.logs.routing import message_key
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.logs.avro import Codec
from topicpolicies_server.logs.sqlite import SqliteLog

_TENANT = "public"
_PENDING = 900
_PATIENCE_SECONDS = 1_800.0
_ASKED = 1_000
_SETTLED_SECONDS = 5.0
_HEAP_MB = 8_000
"""The heap of the broker, which keeps all policies of all topics in memory: a million do not fit into 1,000."""


class Found(NamedTuple):
    """The figures of one start."""

    what: str
    told_seconds: float
    """Seconds from the start of the process until the watch received each namespace as a whole."""
    documents: int
    processor_seconds: float
    """The server's processor time until then."""
    resident_bytes: int
    answer_ms: float
    """The median time of one read of a loaded namespace, each of another namespace, one after the other."""
    idle_server: float
    """The share of a processor that the server uses while nothing happens."""
    idle_broker: float | None
    """The share that the broker uses; None without a broker."""


def main() -> None:
    """Writes a log, starts a server twice, and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--namespaces", type=int, default=1_000)
    parser.add_argument("--topics", type=int, default=1_000, help="in each namespace")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds for which nothing happens")
    parser.add_argument("--pulsar", action="store_true", help="beside a broker, which is started for it")
    options = parser.parse_args()
    print(here().line)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(OwnBroker(heap_mb=_HEAP_MB)) if options.pulsar else None
        began = time.perf_counter()
        names = _on_pulsar(broker, options) if broker is not None else _embedded(folder / "policies.db", options)
        print(f"{len(names):,} namespaces of {options.topics:,} topics, written in {time.perf_counter() - began:.0f} s", flush=True)
        server = _server(folder, broker)
        show([_start(server, what, names, options, broker) for what in ("nothing kept beside the log", "with checkpoints")])


def _server(folder: Path, broker: Broker | None) -> Program:
    log = ["--data", str(folder / "policies.db")]
    if broker is not None:
        log = ["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--checkpoints", str(folder / "checkpoints")]
    return Program("-m", "topicpolicies_server", "serve", "--listen", "ADDRESS", "--log-level", "warning", *log)


def _start(server: Program, what: str, names: list[str], options: argparse.Namespace, broker: Broker | None) -> Found:
    begin = time.perf_counter()
    server.start()
    try:
        with grpc.insecure_channel(server.address) as channel:
            stub = TopicPoliciesServiceStub(channel)
            documents = _told(stub, names)
            told, used = time.perf_counter() - begin, server.processor_seconds
            if documents != len(names) * options.topics:
                raise RuntimeError(f"{documents:,} documents were told and not {len(names) * options.topics:,}")
            resident = server.resident_bytes
            answer = _answers(stub, names, options.topics)
        time.sleep(_SETTLED_SECONDS)
        server_share, broker_share = _idle(server, broker, options.idle)
        return Found(what, told, documents, used, resident, answer, server_share, broker_share)
    finally:
        server.stop()


def _told(stub: Any, names: list[str]) -> int:
    """Returns the number of documents that one watch of all namespaces receives until each has been sent as a whole."""
    request = service_pb2.WatchPoliciesRequest(namespaces=names, mode=service_pb2.WATCH_MODE_LATEST)
    documents, synced = 0, 0
    for answer in (call := stub.WatchPolicies(request, timeout=_PATIENCE_SECONDS)):
        documents += sum(event.HasField("change") for event in answer.events)
        synced += sum(event.bookmark.synced for event in answer.events)
        if synced == len(names):
            call.cancel()
            break
    return documents


def _answers(stub: Any, names: list[str], topics: int) -> float:
    took = []
    for name in names[:_ASKED]:
        request = service_pb2.GetPolicyRequest(topic=_topic(name, topics // 2))
        begin = time.perf_counter()
        stub.GetPolicy(request, timeout=_PATIENCE_SECONDS)
        took.append(time.perf_counter() - begin)
    return 1000 * statistics.median(took)


def _idle(server: Program, broker: Broker | None, seconds: float) -> tuple[float, float | None]:
    def used() -> tuple[float, float]:
        return _used(server.pid), 0.0 if broker is None else _used(broker.pid or 0)

    before = used()
    time.sleep(seconds)
    ours, theirs = (now - then for now, then in zip(used(), before, strict=True))
    return ours / seconds, None if broker is None else theirs / seconds


def _used(process: int) -> float:
    return sum(seconds for _, seconds in seconds_of(process).values())


def _topic(namespace: str, number: int) -> str:
    return f"persistent://{namespace}/topic-{number}"


def _embedded(path: Path, options: argparse.Namespace) -> list[str]:
    names = [f"{_TENANT}/n{number}" for number in range(options.namespaces)]
    asyncio.run(_fill(path, names, options.topics))
    return names


async def _fill(path: Path, names: list[str], topics: int) -> None:
    change_log = SqliteLog(path)
    for name in names:
        sink = Waiting()
        log = await change_log.open(name, sink)
        await sink.ready.wait()
        for event in _events(name, topics):
            assert event.stamp is not None, "a sidecar's"
            sink.waiters[event.stamp.event_id] = asyncio.get_running_loop().create_future()
            log.append(event)
        await log.close()  # which waits for what was appended
    await change_log.close()


def _events(namespace: str, topics: int) -> Iterator[Event]:
    """Yields an update of each topic, as a sidecar writes it."""
    return (an_update(_topic(namespace, number), number) for number in range(topics))


def _on_pulsar(broker: Broker, options: argparse.Namespace) -> list[str]:
    codec, bound = Codec(), threading.Semaphore(_PENDING)
    with Admin(broker.admin_url) as admin:
        names = [admin.create_namespace("many") for _ in range(options.namespaces)]
        writer = ForeignWriter(broker.service_url, admin)
        for name in names:
            producer = writer.producer(name, message_key(PolicyKey(_topic(name, 0), Scope.LOCAL)))
            for event in _events(name, options.topics):
                _send(producer, codec, event, bound)
            producer.flush()
            producer.close()
        writer.close()
    return names


def _send(producer: Any, codec: Codec, event: Event, bound: threading.Semaphore) -> None:
    encoded = codec.encode(event)
    release: Callable[..., None] = lambda *_: bound.release()  # noqa: E731 (what comes with it is of no interest)
    bound.acquire()
    producer.send_async(encoded.payload, release, properties=dict(encoded.properties), partition_key=encoded.key)


def show(rows: list[Found]) -> None:
    """Prints a table of all starts."""
    table = Table(title="A server of many namespaces")
    for heading in ("start", "all told, s", "documents", "of processor, s", "us a document", "memory, MB", "B a document", "answer, ms"):
        table.add_column(heading, justify="left" if heading == "start" else "right")
    table.add_column("idle server, % of a core", justify="right")
    table.add_column("idle broker", justify="right")
    for row in rows:
        table.add_row(
            row.what,
            f"{row.told_seconds:.1f}",
            f"{row.documents:,}",
            f"{row.processor_seconds:.1f}",
            f"{1e6 * row.processor_seconds / row.documents:.0f}",
            f"{row.resident_bytes / 1e6:,.0f}",
            f"{row.resident_bytes / row.documents:,.0f}",
            f"{row.answer_ms:.2f}",
            f"{100 * row.idle_server:.1f}",
            "-" if row.idle_broker is None else f"{100 * row.idle_broker:.1f}",
        )
    Console(width=190).print(table)


if __name__ == "__main__":
    main()
