"""Deliveries to many watchers, beside a raw broadcast of the same bytes; the snapshot of a large namespace, beside its bytes unread."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path

import uvloop

from bench import deliveries, snapshot
from bench.targets import Program, running, sqlite

from .figure import Figure, Measured, Want
from .scale import Say, Scale

DELIVERY_FIGURES = (
    Figure("deliveries", "deliveries to 1,000 watchers, in batches", "raw broadcast of the same bytes", "/s", Want(at_least=0.9)),
)
SNAPSHOT_FIGURES = (
    Figure("snapshot", "snapshot of 100,000 documents, to Client.watch", "the same bytes, unread", "/s", Want(at_least=0.5)),
    Figure("snapshot-async", "snapshot of 100,000 documents, to AsyncClient.watch", "the same bytes, unread", "/s"),
    Figure("snapshot-cache", "snapshot of 100,000 documents, to PolicyCache", "the same bytes, unread", "/s"),
)
_READERS = {"snapshot": "Client.watch", "snapshot-async": "AsyncClient.watch", "snapshot-cache": "PolicyCache"}
_UNREAD = "the bytes, unread"


def measure_deliveries(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures both, round by round."""
    say(f"{scale.watchers:,} watchers, {scale.few_rounds} rounds")
    with (
        running("-m", "bench.broadcast", "PORT") as broadcast,
        sqlite() as target,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        assert isinstance(target.program, Program), "started for this run"
        numbers = {scale.watchers: scale.deliveries}
        rounds = runner.run(deliveries.measure(target.program, broadcast, scale.few_rounds, numbers))[scale.watchers]
    us, raw_us = (statistics.median(each) for each in zip(*((each.told_us, each.broadcast_us) for each in rounds), strict=True))
    note = f"the server's processor time for one: {us:.1f} us without the updates', the broadcast's {raw_us:.1f} us"
    return {"deliveries": Measured([each.told for each in rounds], [each.broadcast for each in rounds], note)}


def measure_snapshot(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures all readers, round by round; each takes every document."""
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "policies.db"
        say(f"writing {scale.topics:,} topics")
        asyncio.run(snapshot.fill(data, scale.topics))
        with running("-m", "topicpolicies_server", "serve", "--listen", "ADDRESS", "--log-level", "warning", "--data", str(data)) as server:
            kinds = snapshot.readers(server.address, scale.topics)
            found: dict[str, list[float]] = {name: [] for name in (*_READERS.values(), _UNREAD)}
            for number in range(scale.few_rounds):
                say(f"round {number + 1} of {scale.few_rounds}")
                names = list(found) if number % 2 else list(reversed(found))
                for row in snapshot.measure({name: kinds[name] for name in names}, scale.topics, 1):
                    found[row.name] += row.per_second
    return {name: Measured(found[reader], found[_UNREAD]) for name, reader in _READERS.items()}
