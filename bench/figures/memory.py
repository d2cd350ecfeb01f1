"""The memory per document: a process loads a namespace of many topics and nothing else, and its growth is divided.

    python -m bench.figures.memory TOPICS REMEMBERED

The view is that of a load: events of a log are folded one by one, there are no watchers, and the events that were read are released. As a
program it loads the documents, each of which remembers this many requests, and prints the bytes per document.
"""

from __future__ import annotations

import gc
import itertools
import os
import random
import statistics
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Document, split, wire
from topicpolicies_server.core.policies.events import Action, Event, Placed, Remembered, Stamp, StampKind
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.logs.sqlite.file import position_of

from .figure import Figure, Scale

_BEGIN = 1_790_000_000_000


def measure(scale: Scale) -> list[Figure]:
    """Measures both kinds, each once in a new process: it hardly ever differs."""
    serialized = statistics.mean(len(wire(_document(number))) for number in range(1_000))
    found = []
    for kind, remembered, most in (("plain", 1, 800), ("16 requests remembered", 16, 1_200)):
        command = [sys.executable, "-m", "bench.figures.memory", str(scale.topics), str(remembered)]
        ours = float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        what = f"bytes a document in memory, {kind}"
        found.append(Figure(what, "serialized", "B", [ours], [serialized], at_most=most, of_limit=False))
    return found


def _document(number: int) -> Document:
    return split(TopicPolicies(max_producer_per_topic=1 + number % 1_000, message_ttl_in_seconds=3_600))


def _events(topics: int, remembered: int) -> Iterator[Placed]:
    """Yields the events of a log as it is read: the newest event of each topic."""
    chance = random.Random(0)
    for number in range(topics):
        places = [position_of(number + 1 + step * topics) for step in range(remembered + 1)]
        pairs = itertools.pairwise(places)
        requests = [Remembered(_id(chance), f"{chance.getrandbits(64):016x}", place, before) for before, place in pairs]
        last = requests[-1]
        base = "" if remembered == 1 else last.previous
        head = (_id(chance), StampKind.UPDATE, last.request_id, last.digest, "deployer", "", ("max_producer_per_topic",), base)
        stamp = Stamp(*head, remembered=tuple(requests[:-1]))
        key = PolicyKey(f"persistent://tenant/namespace/topic-{number:08d}", Scope.LOCAL)
        yield Placed(0, places[-1], Event(key, Action.UPDATE, _document(number), stamp), _BEGIN + number)


def _id(chance: random.Random) -> str:
    return uuid.UUID(int=chance.getrandbits(128), version=4).hex


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def load(topics: int, remembered: int) -> float:
    """Loads a namespace in this process. Returns the bytes per topic."""
    for _ in _events(10, remembered):
        pass
    gc.collect()
    before = _resident()
    view = View(FoldContext(joining=True, sole_writer=True))
    for placed in _events(topics, remembered):
        view.fold(placed)
    view.loaded()
    gc.collect()
    assert view.head_count == topics
    return (_resident() - before) / topics


if __name__ == "__main__":
    print(load(*map(int, sys.argv[1:])))
