"""The validator of the broken promise finds each planted bug, on both logs; the real service breaks no promise.

There is one worker, in this process and without Spark; its records are judged as one shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa
import pytest

from bench.harness.plan import Plan
from bench.harness.proof import judge_shard
from bench.harness.records import Record, batches
from bench.harness.scenarios import SCENARIOS
from bench.harness.targets import Target, pulsar, sqlite
from bench.harness.worker import work
from tests.broker.pulsar_broker import Broker

from . import planted

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
REAL = ("-m", "topicpolicies_server")
Start: TypeAlias = Callable[[tuple[str, ...]], AbstractContextManager[Target]]


@pytest.fixture(params=["sqlite", pytest.param("pulsar", marks=pytest.mark.broker)])
def start(request: pytest.FixtureRequest) -> Start:
    """A function that starts a server, the real one or a variant, on one of the logs."""
    if request.param == "sqlite":
        return sqlite
    broker: Broker = request.getfixturevalue("broker")

    @contextmanager
    def on_pulsar(module: tuple[str, ...]) -> Iterator[Target]:
        with pulsar(broker.service_url, broker.admin_url, module=module) as target:
            yield target

    return on_pulsar


def _records(target: Target, name: str, operations: int, topics: int, watchers: int) -> list[Record]:
    scenario = SCENARIOS[name].scaled(operations, topics, watchers)
    plan = Plan(
        target=target.kind,
        address=target.address,
        namespace=target.namespace,
        prefix="planted",
        # With few operations there must still be watchers that resume, and unknown outcomes.
        scenario=replace(scenario, restless=10 * scenario.restless, impatient=10 * scenario.impatient),
        workers=1,
    )
    return work(plan, 0, lambda: None)


def _broken(records: list[Record]) -> dict[str, list[str]]:
    judged = judge_shard(pa.Table.from_batches(batches(records))).to_pylist()
    assert judged[0]["calls"] > 0 and judged[0]["keys"] > 0
    return {row["promise"]: row["examples"] for row in judged if row["broken"]}


@pytest.mark.parametrize(
    ("bug", "scenario", "promise"),
    [
        ("loses_an_update", "hot-key", "no_lost_update"),
        ("answers_before_read_back", "mixed", "read_your_writes"),
        ("reorders_a_watch", "hot-key", "watch_repeats_nothing"),
        ("drops_a_bookmark", "hot-key", "one_synced"),
    ],
)
def test_the_validator_of_the_broken_promise_finds_a_planted_bug(start: Start, bug: str, scenario: str, promise: str) -> None:
    assert bug in planted.BUGS
    with start(("-m", "tests.bench.planted", bug)) as target:
        found = _broken(_records(target, scenario, 600, 2, 2))
    assert promise in found, found


@pytest.mark.parametrize(("scenario", "topics", "watchers"), [("mixed", 8, 6), ("fan-out", 5, 50), ("bulk", 20, 2)])
def test_the_real_service_breaks_no_promise(start: Start, scenario: str, topics: int, watchers: int) -> None:
    with start(REAL) as target:
        records = _records(target, scenario, 60 if scenario == "fan-out" else 800, topics, watchers)
    assert _broken(records) == {}
    kinds = {record.kind for record in records}
    assert {"update", "change", "bookmark", "watch"} <= kinds
    if scenario == "mixed":
        assert {"delete", "read"} <= kinds
        resumed = [record for record in records if record.kind == "watch" and record.positions is not None]
        assert resumed, "watchers cancelled and resumed"
        assert any(record.phase == "settle" for record in records), "some outcomes were unknown, and were settled"
    if scenario == "bulk":
        assert all(record.stream for record in records if record.kind == "update")
