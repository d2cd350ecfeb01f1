"""What pulsar-client alone does: it publishes messages of a sidecar again, and takes all messages of a topic.

    python -m bench.figures.publishing SERVICE_URL TOPIC

As a program it takes the messages of a topic from its beginning, as compaction left it, and prints their number: this measures the start of
a process that only reads. So this module imports little.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulsar

if TYPE_CHECKING:
    from bench.load import Sample

CHANGE_EVENTS = "__change_events"
_QUEUE = 1_000
"""As long as a sidecar's."""
_READ_MS = 30_000


@contextmanager
def client(service_url: str) -> Iterator[Any]:
    """Opens a client that writes its log into a temporary file."""
    log = Path(tempfile.gettempdir()) / "pulsar-client.log"
    made = pulsar.Client(service_url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(log)))
    try:
        yield made
    finally:
        made.close()


def open_reader(library: Any, topic: str, start: Any = pulsar.MessageId.earliest, *, compacted: bool = True) -> Any:
    """Returns a reader with a queue of the size of a sidecar's."""
    return library.create_reader(topic, start, receiver_queue_size=_QUEUE, is_read_compacted=compacted)


def drain(reader: Any) -> int:
    """Takes all present messages. Returns their number."""
    count = 0
    while reader.has_message_available():
        reader.read_next(_READ_MS)
        count += 1
    return count


def take(reader: Any, count: int) -> None:
    """Takes this many messages.

    Raises:
        pulsar.Timeout: one did not come in time.
    """
    for _ in range(count):
        reader.read_next(_READ_MS)


def written(library: Any, namespace: str, most: int) -> list[Any]:
    """Returns the first messages of a namespace's change log.

    Raises:
        RuntimeError: there are none.
    """
    found: list[Any] = []
    reader = open_reader(library, f"persistent://{namespace}/{CHANGE_EVENTS}", compacted=False)
    while len(found) < most and reader.has_message_available():
        found.append(reader.read_next(_READ_MS))
    if not found:
        raise RuntimeError(f"nothing was written to the change log of {namespace}")
    return found


class Publisher:
    """Publishes messages again and again to a topic without readers, without batching, as a sidecar does."""

    def __init__(self, library: Any, namespace: str, messages: Sequence[Any]) -> None:
        """``library``: a client. The topic is a new one of the namespace."""
        self._messages = itertools.cycle([(each.data(), each.partition_key(), each.properties()) for each in messages])
        topic = f"persistent://{namespace}/bare-{uuid.uuid4().hex[:8]}"
        self._producer = library.create_producer(topic, batching_enabled=False, max_pending_messages=10_000, block_if_queue_full=True)

    def publish(self, in_flight: int, seconds: float) -> Sample:
        """Publishes with this many unacknowledged at a time, and measures the time of each.

        Raises:
            RuntimeError: one failed.
        """
        from bench.load import Sample  # noqa: PLC0415 - a process that only reads does not load it

        room = threading.Semaphore(in_flight)
        times: list[float] = []
        failed: list[Any] = []

        def acknowledged(began: float, result: Any) -> None:
            times.append(time.perf_counter() - began)
            if result != pulsar.Result.Ok:
                failed.append(result)
            room.release()

        begin = time.perf_counter()
        while time.perf_counter() < begin + seconds:
            room.acquire()
            payload, key, properties = next(self._messages)
            began = time.perf_counter()
            self._producer.send_async(
                payload, lambda result, _, began=began: acknowledged(began, result), properties=properties, partition_key=key
            )
        for _ in range(in_flight):
            room.acquire()
        took = time.perf_counter() - begin
        if failed:
            raise RuntimeError(f"{len(failed)} publishes failed: {failed[0]}")
        return Sample.of(times, took)


if __name__ == "__main__":
    with client(sys.argv[1]) as opened:
        print(drain(open_reader(opened, sys.argv[2])), flush=True)
