"""How long an append to Pulsar's log takes, how many it takes a second, beside the brokers' admin API, and how fast a log is loaded.

    python -m bench.pulsar_log --service-url pulsar://127.0.0.1:6650 --admin-url http://127.0.0.1:8080 [--keys 100000]

It creates its own namespaces (``public/bench-...``) and does not delete them.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from bench.embedded_log import Waiting, spread, updates
from tests.broker.admin import Admin
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog

LIMITS = PulsarLimits(in_flight=2_000)


class ReadingBack(Waiting):
    """A sink that also measures the time until an event is read back."""

    def __init__(self) -> None:
        super().__init__()
        self.began: dict[str, float] = {}
        self.read_back: list[float] = []

    def read(self, events: object) -> None:
        """Takes the time of each event."""
        now = time.perf_counter()
        for placed in events:  # type: ignore[attr-defined]
            self.count += 1
            stamp = placed.event.stamp if placed.event is not None else None
            began = self.began.pop(stamp.event_id, None) if stamp is not None else None
            if began is not None:
                self.read_back.append(now - began)


def in_namespace(namespace: str, event: Event) -> Event:
    """Returns the event for a topic of another namespace."""
    topic = f"persistent://{namespace}/{event.key.topic.rsplit('/', 1)[1]}"
    return Event(PolicyKey(topic, Scope.LOCAL), Action.UPDATE, event.document, event.stamp)


async def append(options: argparse.Namespace, namespace: str, in_flight: int, count: int) -> None:
    """Appends with this many events waiting at a time, and prints the times."""
    change_log = PulsarLog(options.service_url, options.admin_url, limits=LIMITS)
    sink = ReadingBack()
    log = await change_log.open(namespace, sink)
    await sink.ready.wait()
    loop = asyncio.get_running_loop()
    waits: list[float] = []
    events = iter([in_namespace(namespace, event) for event in updates(count + 100, 1_000)])

    async def worker(most: int) -> None:
        for event in events:
            assert event.stamp is not None
            done = sink.waiters[event.stamp.event_id] = loop.create_future()
            began = sink.began[event.stamp.event_id] = time.perf_counter()
            log.append(event)
            await done
            waits.append(time.perf_counter() - began)
            most -= 1
            if most == 0:
                return

    await worker(100)  # the first appends open a producer
    waits.clear()
    sink.read_back.clear()
    wall, thread = time.perf_counter(), time.thread_time()
    await asyncio.gather(*(worker(-1) for _ in range(in_flight)))
    wall, thread = time.perf_counter() - wall, time.thread_time() - thread
    await asyncio.sleep(0.5)
    print(
        f"{in_flight:4} in flight: {count / wall:6,.0f} appends/s, {spread(waits)}; read back {spread(sink.read_back)};"
        f" {thread / count * 1e6:.0f} us of the loop's thread each"
    )
    await change_log.close()


async def load(options: argparse.Namespace, admin: Admin) -> None:
    """Fills a log with one event per key, opens it, and prints how fast it was read and how late the loop was meanwhile."""
    namespace = admin.create_namespace("bench")
    change_log = PulsarLog(options.service_url, options.admin_url, limits=LIMITS)
    sink = Waiting()
    log = await change_log.open(namespace, sink)
    await sink.ready.wait()
    slots = asyncio.Semaphore(LIMITS.in_flight // 2)
    for event in updates(options.keys, options.keys):
        assert event.stamp is not None
        await slots.acquire()
        done = sink.waiters[event.stamp.event_id] = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda _: slots.release())
        log.append(in_namespace(namespace, event))
    await change_log.close()
    for state in ("as written", "compacted"):
        change_log = PulsarLog(options.service_url, options.admin_url)
        sink = Waiting()
        lags: list[float] = []
        watching = asyncio.create_task(_watch(lags))
        wall, process = time.perf_counter(), time.process_time()
        await change_log.open(namespace, sink)
        await sink.ready.wait()
        wall, process = time.perf_counter() - wall, time.process_time() - process
        watching.cancel()
        await change_log.close()
        print(
            f"{sink.count:,} keys loaded ({state}) in {wall:.1f} s: {sink.count / wall:,.0f}/s, {process / sink.count * 1e6:.0f} us of the"
            f" process each; meanwhile the loop was late by {spread(lags)}"
        )
        if state == "as written":
            await asyncio.to_thread(admin.compact_change_events, namespace, timeout_s=120)


async def _watch(lags: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.002)
        lags.append(time.perf_counter() - began - 0.002)


def admin_updates(admin: Admin, namespace: str, count: int) -> None:
    """Makes one update after another through the broker's own API, and prints the times."""
    admin.create_topic(f"{namespace}/topic")
    waits = []
    for n in range(count):
        began = time.perf_counter()
        admin.call("POST", f"persistent/{namespace}/topic/maxProducers", n + 1)
        waits.append(time.perf_counter() - began)
    print(f"   1 in flight: admin API {spread(waits[10:])}")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--service-url", required=True)
    parser.add_argument("--admin-url", required=True)
    parser.add_argument("--keys", type=int, default=100_000)
    options = parser.parse_args()
    with Admin(options.admin_url) as admin:
        admin_updates(admin, admin.create_namespace("bench"), 200)
        for partitions in (0, 3):
            print(f"{partitions} partitions:" if partitions else "not partitioned:")
            for in_flight, count in ((1, 1_000), (8, 5_000), (64, 15_000)):
                namespace = admin.create_namespace("bench")
                if partitions:
                    admin.partition_change_events(namespace, partitions)
                asyncio.run(append(options, namespace, in_flight, count))
        asyncio.run(load(options, admin))


if __name__ == "__main__":
    main()
