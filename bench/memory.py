"""The memory per policy key: a namespace of many topics is loaded in its own process, and the growth of the process is divided.

    python -m bench.memory [--topics 100000]

For each kind of document it prints, per topic, the bytes of the serialized document, of Python's objects (``tracemalloc``), and of the
process (its resident set). The view is that of a load: events of a log are folded one by one, there are no watchers, and the events that
were read are released.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import random
import subprocess
import sys
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Settings, split, wire
from topicpolicies_server.core.policies.events import Action, Event, Placed, Remembered, Stamp, StampKind
from topicpolicies_server.core.reading.view import View

TOPICS = 100_000
_BEGIN = 1_790_000_000_000


def _small(number: int) -> Settings:
    return split(TopicPolicies(max_producer_per_topic=1 + number % 1_000, message_ttl_in_seconds=3_600))


def _large(number: int) -> Settings:
    policies = TopicPolicies(max_producer_per_topic=1 + number % 1_000, message_ttl_in_seconds=3_600)
    policies.retention_policies.retention_time_in_minutes = number % 7_000
    policies.retention_policies.retention_size_in_mb = 512
    policies.publish_rate.publish_throttling_rate_in_msg = 1_000
    policies.publish_rate.publish_throttling_rate_in_byte = 1 << 20
    for name in ("orders", "billing"):
        policies.subscription_policies[name].dispatch_rate.dispatch_throttling_rate_in_msg = 100
    return split(policies)


class Kind:
    """A kind of namespace."""

    def __init__(self, what: str, document: Callable[[int], Settings], remembered: int, *, sole: bool = True, apart_ms: int = 1) -> None:
        """Args: its name, its documents, the requests that each key remembers, and whether a sidecar is the only writer of the log."""
        self.what = what
        self.document = document
        self.remembered = remembered
        self.context = FoldContext(joining=sole, sole_writer=sole)
        self.apart_ms = apart_ms

    def events(self, topics: int) -> Iterator[Placed]:
        """Yields the events of a log as it is read: the newest event of each topic."""
        chance = random.Random(0)
        for number in range(topics):
            row = number + 1
            key = PolicyKey(f"persistent://tenant/namespace/topic-{number:08d}", Scope.LOCAL)
            places = [_place(row + step * topics) for step in range(self.remembered + 1)]
            requests = [
                Remembered(_id(chance), f"{chance.getrandbits(64):016x}", place, before) for before, place in itertools.pairwise(places)
            ]
            stamp = None
            if self.remembered:
                last = requests[-1]
                base = "" if self.remembered == 1 else last.previous
                head = (_id(chance), StampKind.UPDATE, last.request_id, last.digest, "deployer", "", ("max_producer_per_topic",), base)
                stamp = Stamp(*head, remembered=tuple(requests[:-1]))
            event = Event(key, Action.UPDATE, self.document(number), stamp)
            yield Placed(0, places[-1], event, _BEGIN + number * self.apart_ms)


def _id(chance: random.Random) -> str:
    return uuid.UUID(int=chance.getrandbits(128), version=4).hex


def _place(row: int) -> str:
    digits = f"{row:x}"
    return f"{len(digits) - 1:x}{digits}"


KINDS = {
    "plain": Kind("two settings, written once", _small, 1),
    "requests": Kind("two settings, sixteen requests remembered", _small, 16),
    "settings": Kind("six settings, written once", _large, 1),
    "both": Kind("six settings, sixteen requests remembered", _large, 16),
    "brokers": Kind("two settings, written by a broker, idle", _small, 0, sole=False, apart_ms=10),
    "settled": Kind("two settings, sixteen requests, idle", _small, 16, apart_ms=10),
}
"""The kinds, by the name under which a subprocess measures one."""


def resident() -> int:
    """Returns the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(kind: Kind, topics: int, *, traced: bool) -> float:
    """Loads a namespace in this process.

    Returns:
        Bytes per topic: of Python's objects if ``traced``, otherwise of the process.
    """
    for _ in kind.events(10):
        pass
    gc.collect()
    if traced:
        tracemalloc.start()
    before = resident()
    view = View(kind.context)
    for placed in kind.events(topics):
        view.take(placed)
    view.loaded()
    gc.collect()
    assert len(view) == topics
    return (tracemalloc.get_traced_memory()[0] if traced else resident() - before) / topics


def main() -> int:
    """Measures each kind in new processes, and prints one table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=TOPICS)
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this kind; may be repeated")
    parser.add_argument("--alone", choices=("objects", "process"), help="measure one kind in this process, and print the figure alone")
    options = parser.parse_args()
    kinds = options.kind or list(KINDS)
    if options.alone is not None:
        print(measure(KINDS[kinds[0]], options.topics, traced=options.alone == "objects"))
        return 0
    table = Table(title=f"Bytes of a topic in a namespace of {options.topics:,}")
    for column in ("what", "serialized", "objects", "process"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for name in kinds:
        command = [sys.executable, "-m", "bench.memory", "--topics", str(options.topics), "--kind", name, "--alone"]
        figures = [float(subprocess.run([*command, how], check=True, capture_output=True).stdout) for how in ("objects", "process")]
        serialized = sum(len(wire(KINDS[name].document(number))) for number in range(1_000)) / 1_000
        table.add_row(KINDS[name].what, *(f"{figure:,.0f}" for figure in (serialized, *figures)))
    Console(width=110).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
