"""How long a Pulsar log takes from opening to the first answer, beside a raw drain of the same log.

    python -m bench.draining [--topics 100000] [--runs 3] [--kinds broker sidecar]

It starts a broker and writes one event per topic. Then these run in turn, each in its own process: a reader of pulsar-client's that takes
every message and decodes none; the log alone; a namespace until it answers, when everything has been folded.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from bench.following import KINDS, messages
from bench.sidecar_events import Events
from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.logs.pulsar.foreign import ForeignWriter
from tests.logs.routing import message_key
from topicpolicies_server.config import Limits
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.logs.pulsar import PulsarLog
from topicpolicies_server.logs.pulsar.client import PulsarClient, close_handle
from topicpolicies_server.namespaces.registry import Registry

_PENDING = 900
_QUEUE = 1_000
_WINDOW_MS = 1_000
"""The window W: older entries need not be decoded before the first answer. With the default each run would wait half a minute."""
_Took = tuple[float, float]


class _Counting:
    def __init__(self) -> None:
        self.entries = 0
        self.over = asyncio.Event()

    def read(self, events: Sequence[Placed]) -> None:
        self.entries += len(events)

    def caught_up(self) -> None:
        self.over.set()

    def appended(self, events: object) -> None:
        """Not called: nothing is appended."""

    def append_failed(self, event: object, error: object) -> None:
        """Not called: nothing is appended."""

    def lost(self, error: Exception) -> None:
        raise error

    def led(self) -> None:
        """Not called: no process leads."""


async def drained(where: tuple[str, str], namespace: str, topics: int) -> Callable[[], Awaitable[None]]:
    """Takes all messages with pulsar-client's reader."""
    client = PulsarClient(where[0])
    handle = await client.create_reader(f"persistent://{namespace}/__change_events", "drain", queue_size=_QUEUE)
    for _ in range(topics):
        handle.read_next()

    async def close() -> None:
        await close_handle(handle)
        await client.close(5)

    return close


async def read(where: tuple[str, str], namespace: str, topics: int) -> Callable[[], Awaitable[None]]:
    """Reads the log alone."""
    del topics
    log, sink = PulsarLog(*where), _Counting()
    await log.open(namespace, sink)
    await sink.over.wait()
    return log.close


async def answered(where: tuple[str, str], namespace: str, topics: int) -> Callable[[], Awaitable[None]]:
    """Loads a namespace until it answers for one topic."""
    log = PulsarLog(*where)
    registry = Registry(log, Limits(join_patience_seconds=0, load_timeout_seconds=600), FoldContext(window_ms=_WINDOW_MS), read_only=True)
    head = await registry.get(namespace).get(PolicyKey(f"persistent://{namespace}/topic-{topics // 2:06d}", Scope.LOCAL))
    assert head is not None

    async def close() -> None:
        await registry.close()
        await log.close()

    return close


STAGES = {"raw drain": drained, "log": read, "first answer": answered}


def measure(what: str, where: tuple[str, str], namespace: str, topics: int, answers: Any) -> None:
    """Runs one stage in this process."""

    async def run() -> None:
        gc.freeze()
        gc.set_threshold(50_000)
        began, processor = time.perf_counter(), time.process_time()
        close = await STAGES[what](where, namespace, topics)
        answers.put((time.perf_counter() - began, time.process_time() - processor))
        await close()

    asyncio.run(run())


def write(broker: Broker, namespace: str, kind: str, topics: int) -> None:
    """Writes one event of each topic."""
    with broker.admin() as admin:
        foreign = ForeignWriter(broker.service_url, admin)
        first = PolicyKey(f"persistent://{namespace}/topic-000000", Scope.LOCAL)
        foreign.write(namespace, Events().of_broker(first, 0))
        producer = foreign.producer(namespace, message_key(first))
        bound = threading.Semaphore(_PENDING)
        for message in messages(kind, topics, topics, namespace=namespace):
            bound.acquire()
            producer.send_async(
                message.data(), lambda *_: bound.release(), properties=message.properties(), partition_key=message.partition_key()
            )
        producer.flush()
        foreign.close()


def main() -> None:
    """Measures each kind of event."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    with OwnBroker() as broker:
        for kind in options.kinds:
            with broker.admin() as admin:
                namespace = admin.create_namespace("bench")
                admin.compact_only_on_request(namespace)
            write(broker, namespace, kind, options.topics)
            time.sleep(2 * _WINDOW_MS / 1000)
            took: dict[str, list[_Took]] = {what: [] for what in STAGES}
            for _ in range(options.runs):
                for what, times in took.items():
                    answers = spawn.Queue()
                    process = spawn.Process(
                        target=measure, args=(what, (broker.service_url, broker.admin_url), namespace, options.topics, answers)
                    )
                    process.start()
                    times.append(answers.get(timeout=600))
                    process.join()
            for what, times in took.items():
                wall, processor = (statistics.median(each) for each in zip(*times, strict=True))
                each = processor / options.topics * 1e6
                print(f"{kind}: {what}: {wall:.2f} s, of processor {processor:.2f} s, {each:.1f} us an event", flush=True)


if __name__ == "__main__":
    main()
