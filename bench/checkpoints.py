"""The first answer of a namespace on the embedded log, read from its log and from its checkpoint, beside reading the checkpoint's bytes.

    python -m bench.checkpoints [--topics 100000] [--times 3]

Each topic has one document. Everything runs in one process; on a machine with other work, processor time says more than wall-clock time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
import uuid
from pathlib import Path

from tests.checkpoints.server import NAMESPACE, Server, a_key, loaded_from, view_of
from tests.logs.recorder import Recorder
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.core.policies.events import Action, Event, Stamp, StampKind
from topicpolicies_server.logs.sqlite import SqliteLog

_AT_ONCE = 2_000


def an_event(number: int) -> Event:
    """Returns a sidecar's update of one setting."""
    stamp = Stamp(uuid.uuid4().hex, StampKind.UPDATE, request_id=uuid.uuid4().hex, digest="0" * 16, mask=("max_producer_per_topic",))
    return Event(a_key(number), Action.UPDATE, split(TopicPolicies(max_producer_per_topic=number % 1_000)), stamp)


async def fill(path: Path, topics: int) -> None:
    """Writes one event for each topic."""
    log, sink = SqliteLog(path), Recorder()
    await log.start()
    opened = await log.open(NAMESPACE, sink)
    await sink.until_caught_up()
    for first in range(0, topics, _AT_ONCE):
        for number in range(first, min(first + _AT_ONCE, topics)):
            opened.append(an_event(number))
        await sink.until_settled(min(first + _AT_ONCE, topics))
    await log.close()


async def first_answer(folder: Path, topics: int) -> None:
    """Starts the server's parts in this process, reads one document, and stops them."""
    server = Server(folder)
    gc.collect()
    began, cpu = time.perf_counter(), time.process_time()
    async with server.running(load_timeout_seconds=600) as registry:
        await registry.get(NAMESPACE).get(a_key(topics // 2))
        took = f"{time.perf_counter() - began:.2f} s, {time.process_time() - cpu:.2f} s of processor time"
        print(f"first answer from the {loaded_from(registry)}: {took}", flush=True)
        if loaded_from(registry) == "log":
            began, cpu = time.perf_counter(), time.process_time()
            view_of(registry).copy()
            print(f"a copy of everything: {(time.perf_counter() - began) * 1_000:.0f} ms", flush=True)
            began, cpu = time.perf_counter(), time.process_time()
            await server.keep()
            took = f"{time.perf_counter() - began:.2f} s, {time.process_time() - cpu:.2f} s of processor time"
            print(f"a checkpoint of everything: {took}", flush=True)


def read_alone(path: Path) -> None:
    """Reads the bytes of the checkpoint, and does nothing else."""
    began, cpu = time.perf_counter(), time.process_time()
    size = len(path.read_bytes())
    took = f"{time.perf_counter() - began:.2f} s, {time.process_time() - cpu:.2f} s of processor time"
    print(f"its {size >> 20} MiB, and nothing else: {took}", flush=True)


def main() -> None:
    """Measures once from the log, and the given number of times from the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(fill(Path(folder) / "policies.db", options.topics))
        for _ in range(1 + options.times):
            asyncio.run(first_answer(Path(folder), options.topics))
        read_alone(Server(Path(folder)).file)


if __name__ == "__main__":
    main()
