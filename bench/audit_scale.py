"""How long the audit takes, by the number of changes.

    python -m bench.audit_scale [--sizes 500,100000,10000000] [--directory DIR]

For each size a history of thirty days is made: ten namespaces share the changes, and three hundred others have one each. Then the history
is copied into an archive, by a sidecar that serves it and from its file, and each command of the audit runs: in a process of its own
(cold, with the start of Spark), again in a session that has already run it (warm), and as plain Python over the same files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table

from bench.harness.targets import running
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.history import file
from topicpolicies_server.history.entries import AS_AFTER, BEFORE_KNOWN, Followed, Stream

_ROOT = Path(__file__).parents[1]
_LARGE, _SMALL = 10, 300
"""How many namespaces share the changes, and how many have one each."""
_ACTORS = 20
_DAYS = 30
_MASK = '["max_producer_per_topic","message_ttl_in_seconds"]'
_CHANGED = '["max_producer_per_topic"]'


def fill(path: Path, changes: int) -> None:
    """Writes a history. A topic has about a hundred changes; of one topic in fifty, two actors change the value back and forth."""
    connection = file.prepare(path)
    connection.executescript("PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000; PRAGMA wal_autocheckpoint = 10000")
    indexes = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'entries'").fetchall()
    for name, _ in indexes:  # it is faster to build them at the end
        connection.execute(f"DROP INDEX {name}")
    names = [f"acme/ns-{number}" for number in range(_LARGE)] + [f"small/ns-{number}" for number in range(_SMALL)]
    namespaces = {name: file.namespace_id(connection, name) for name in names}
    streams = {name: file.stream_id(connection, number, Stream(name, "bench", 0)) for name, number in namespaces.items()}
    last: dict[str, tuple[str, int]] = {}
    waiting: list[tuple[int, Any]] = []
    for number, (name, row) in enumerate(_changes(names, changes), 1):
        row |= {"stream": streams[name], "namespace": namespaces[name]}
        last[name] = row["position"], row["at"]
        waiting.append((number, tuple(row[column] for column in file.COLUMNS)))
        if len(waiting) == file.ROWS:
            file.insert(connection, waiting)
            waiting.clear()
    if waiting:
        file.insert(connection, waiting)
    now = time.time_ns() // 1_000_000
    for name, (position, at) in last.items():
        file.note_stream(connection, streams[name], position, at)
        file.note_followed(connection, namespaces[name], Followed(name, now))
    for _, sql in indexes:
        connection.execute(sql)
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _changes(names: list[str], changes: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the columns of each entry, with its namespace."""
    step = _DAYS * 86_400_000 / changes
    begin = time.time_ns() // 1_000_000 - _DAYS * 86_400_000
    topics = max(changes // 100, _LARGE)
    constant = {
        "scope": 1, "kind": 1, "outcome": 1, "standing": 2, "reason": "", "mask": _MASK, "producer": "", "problem": "", "principal": "",
        "claimed": "", "trace_parent": "", "action": 3, "clusters": '[""]', "written": None,
    }  # fmt: skip
    for number in range(changes + _SMALL):
        which, turn = number % topics, number // topics
        name, position = names[which % _LARGE if number < changes else number - changes + _LARGE], f"{number + 1:012d}"
        turn = turn if number < changes else 0
        at = begin + int(min(number, changes) * step)
        yield name, constant | {
            "position": position,
            "version": position,
            "topic": f"persistent://{name}/topic-{which}",
            "at": at,
            "published_at": at,
            "actor": f"bot-{(which + turn % 2) % _ACTORS}",
            "request_id": f"{number:032x}",
            "previous": f"{number + 1 - topics:012d}" if turn else "0",
            "flags": AS_AFTER | BEFORE_KNOWN,
            "before": _document(which, turn - 1) if turn else None,
            "after": _document(which, turn),
            "changed": _CHANGED if turn else _MASK,
        }


def _document(topic: int, turn: int) -> bytes:
    value = turn % 2 if topic % 50 == 0 else turn
    return TopicPolicies(max_producer_per_topic=value, message_ttl_in_seconds=60).SerializeToString()
