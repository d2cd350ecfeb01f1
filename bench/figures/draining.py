"""The limit of reading a Pulsar log: pulsar-client takes its messages as they are, and nothing else happens.

    python -m bench.figures.draining SERVICE_URL TOPIC

As a program it reads a topic from its beginning, as compaction left it, and prints the number of messages: this measures the start of a
process that only reads.
"""

from __future__ import annotations

import sys
from typing import Any

import pulsar

from .library import client

QUEUE = 1_000
_READ_MS = 30_000


def open_reader(library: Any, topic: str, start: Any = pulsar.MessageId.earliest, *, compacted: bool = True) -> Any:
    """Returns a reader with a queue of the size of a sidecar's."""
    return library.create_reader(topic, start, receiver_queue_size=QUEUE, is_read_compacted=compacted)


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


def main() -> int:
    """Drains a topic, and prints the number of messages."""
    service_url, topic = sys.argv[1:]
    with client(service_url) as library:
        print(drain(open_reader(library, topic)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
