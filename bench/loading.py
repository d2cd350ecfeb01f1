"""How long a Pulsar log takes to load while it is written and brokers compact it, and how many loads fail.

    python -m bench.loading [--topics 100000 320000] [--seconds 90] [--rate 200] [--compact-every 15 60] [--longest 300]

It starts a broker. A namespace gets one event per topic and is compacted. Then, for each interval between two compactions, for the given
number of seconds, one process writes events of any of these topics at a steady rate, one in twenty a deletion; the log is compacted again
and again; and another process loads it as often as it can, each time with a new client, as a sidecar that starts.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import statistics
import threading
import time
from collections.abc import Sequence
from typing import Any

from bench.sidecar_events import Events
from tests.broker.admin import CHANGE_EVENTS, AdminError
from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.logs.pulsar.foreign import ForeignWriter
from tests.logs.routing import message_key
from tests.logs.samples import a_tombstone
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.logs.avro import Codec
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar import PulsarLog

_CODEC = Codec()
_PENDING = 900
_SETTLED_SECONDS = 2.0


class Loading:
    """A sink that signals that the log has been loaded."""

    def __init__(self) -> None:
        self.entries = 0
        self.outcome: asyncio.Future[LogError | None] = asyncio.get_running_loop().create_future()

    def read(self, events: Sequence[Placed]) -> None:
        """Counts the events."""
        self.entries += len(events)

    def caught_up(self) -> None:
        """The log has been loaded."""
        if not self.outcome.done():
            self.outcome.set_result(None)

    def lost(self, error: LogError) -> None:
        """The log has to be opened anew."""
        if not self.outcome.done():
            self.outcome.set_result(error)

    def appended(self, events: object) -> None:
        """Not called: nothing is appended."""

    def append_failed(self, event: object, error: object) -> None:
        """Not called: nothing is appended."""

    def led(self) -> None:
        """Not called: no process leads."""


def main() -> None:
    """Measures each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, nargs="+", default=[100_000, 320_000])
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--rate", type=int, default=200, help="events a second")
    parser.add_argument("--compact-every", type=float, nargs="+", default=[15.0], help="seconds from one compaction to the next")
    parser.add_argument("--longest", type=float, default=300.0, help="seconds after which a load is given up")
    options = parser.parse_args()
    with OwnBroker(settings={"brokerServiceCompactionMonitorIntervalInSeconds": "3600"}) as broker:
        for topics in options.topics:
            measure(broker, topics, options)


def measure(broker: Broker, topics: int, options: argparse.Namespace) -> None:
    """Fills a namespace, and loads it again and again."""
    with broker.admin() as admin:
        namespace = admin.create_namespace("bench")
        admin.compact_only_on_request(namespace)
        began = time.perf_counter()
        write(broker.service_url, broker.admin_url, namespace, topics, None, None)
        admin.compact_change_events(namespace, timeout_s=300)
        print(f"{topics:,} topics written and compacted in {time.perf_counter() - began:.0f} s", flush=True)
        asyncio.run(loads(broker, namespace, 15.0, options.longest, "nobody writes"))
        for every in options.compact_every:
            measure_compacted(broker, namespace, topics, every, options)


def measure_compacted(broker: Broker, namespace: str, topics: int, every: float, options: argparse.Namespace) -> None:
    """Loads a namespace again and again while it is written and compacted."""
    spawn = multiprocessing.get_context("spawn")
    over = spawn.Event()
    writer = spawn.Process(target=write, args=(broker.service_url, broker.admin_url, namespace, topics, options.rate, over))
    writer.start()
    stopped = threading.Event()
    compactions: list[float] = []
    compacting = threading.Thread(target=compact, args=(broker, namespace, every, stopped, compactions))
    compacting.start()
    time.sleep(_SETTLED_SECONDS)
    try:
        what = f"{options.rate} events/s, compacted every {every:g} s"
        asyncio.run(loads(broker, namespace, options.seconds, options.longest, what))
    finally:
        stopped.set()
        over.set()
        compacting.join()
        writer.join()
    took = f"{statistics.mean(compactions):.1f} s each" if compactions else "none"
    print(f"    {len(compactions)} compactions meanwhile, {took}", flush=True)


def write(service_url: str, admin_url: str, namespace: str, topics: int, rate: int | None, over: Any) -> None:
    """Writes one event of each topic; or, with a rate, events of any topic until ``over`` is set."""
    from tests.broker.admin import Admin  # noqa: PLC0415 - in the process that uses it

    with Admin(admin_url) as admin:
        foreign = ForeignWriter(service_url, admin)
        keys = [PolicyKey(f"persistent://{namespace}/topic-{number}", Scope.LOCAL) for number in range(topics)]
        events = Events()
        foreign.write(namespace, events.of_sidecar(keys[0], 0))
        producer = foreign.producer(namespace, message_key(keys[0]))
        bound = threading.Semaphore(_PENDING)
        chance = random.Random(7)
        began = time.perf_counter()
        for number in range(1, topics if rate is None else 1_000_000_000):
            if rate is not None:
                if over.is_set():
                    break
                time.sleep(max(0.0, began + number / rate - time.perf_counter()))
            key = keys[number] if rate is None else chance.choice(keys)
            deleted = rate is not None and number % 20 == 0
            encoded = _CODEC.encode(a_tombstone(key) if deleted else events.of_sidecar(key, number))
            bound.acquire()
            clusters = None if encoded.replication_clusters is None else list(encoded.replication_clusters)
            producer.send_async(
                encoded.payload,
                lambda *_: bound.release(),
                properties=dict(encoded.properties),
                partition_key=encoded.key,
                replication_clusters=clusters,
            )
        producer.flush()
        foreign.close()


def compact(broker: Broker, namespace: str, every: float, stopped: threading.Event, took: list[float]) -> None:
    """Compacts the log again and again until it is stopped."""
    with broker.admin() as admin:
        path = f"persistent/{namespace}/{CHANGE_EVENTS}/compaction"
        while not stopped.is_set():
            began = time.perf_counter()
            try:
                admin.compact_change_events(namespace, timeout_s=120)
                took.append(time.perf_counter() - began)
            except (AdminError, TimeoutError) as error:
                print(f"    {path}: {error}", flush=True)
            stopped.wait(max(0.0, every - (time.perf_counter() - began)))


async def loads(broker: Broker, namespace: str, seconds: float, longest: float, what: str) -> None:
    """Loads the log, one load after the other, and prints how long each took and how it ended."""
    until = time.perf_counter() + seconds
    took: list[float] = []
    failed: dict[str, int] = {}
    entries = 0
    while time.perf_counter() < until:
        change_log = PulsarLog(broker.service_url, broker.admin_url)
        sink = Loading()
        began = time.perf_counter()
        try:
            async with asyncio.timeout(longest):
                await change_log.open(namespace, sink)
                error = await sink.outcome
        except LogError as raised:
            error = raised
        except TimeoutError:
            error = LogError("TIMEOUT", "")  # type: ignore[arg-type]
        if error is None:
            took.append(time.perf_counter() - began)
            entries = sink.entries
        else:
            failed[str(error.reason)] = failed.get(str(error.reason), 0) + 1
        await change_log.close()
    spread = f"{min(took):.1f} / {statistics.median(took):.1f} / {max(took):.1f} s, {entries:,} entries the last" if took else "-"
    print(f"    {what}: {len(took)} loads ({spread}), {sum(failed.values())} failed {failed or ''}", flush=True)


if __name__ == "__main__":
    main()
