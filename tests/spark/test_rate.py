"""At a given rate the harness counts latencies from when a call should have begun, and says whether the rate was held."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from bench.harness.records import Record, batches
from bench.harness.worker import make

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_RATE = 100.0
_CALLS = 100
_STALL_SECONDS = 0.5


def _recorded(rate: float) -> list[Record]:
    """Returns the records of two clients of a service that answers at once, but once stalls everybody."""
    records: list[Record] = []
    stalled_until = 0.0

    async def call(operations: Sequence[int], intended: float | None) -> None:
        nonlocal stalled_until
        start = time.time()
        if operations[0] == _CALLS // 2:
            stalled_until = start + _STALL_SECONDS
        await asyncio.sleep(max(0.0, stalled_until - start))
        records.append(Record("update", "steady", 0, "c", start, intended, end=time.time()))

    asyncio.run(make(range(_CALLS), [call, call], rate=rate))
    return records


def test_a_stall_of_the_service_shows_in_all_calls_that_should_have_begun_meanwhile(spark: SparkSession) -> None:
    from bench.harness import figures  # noqa: PLC0415

    (paced,) = figures.totals(spark.createDataFrame(_table(_recorded(_RATE))))
    (unpaced,) = figures.totals(spark.createDataFrame(_table(_recorded(0.0))))
    late = _STALL_SECONDS / 4 * 1000
    assert paced.quantiles_ms[0.75] > late, "37 calls should have begun before the last quarter of the stall"
    assert paced.quantiles_ms[0.5] < late
    assert unpaced.quantiles_ms[0.95] < late, "as fast as possible, the stall delays only the calls in flight"


@pytest.mark.parametrize(("late", "held"), [(0.001, True), (0.2, False)])
def test_a_report_says_whether_the_rate_was_held(spark: SparkSession, late: float, held: bool) -> None:
    from bench.harness import figures  # noqa: PLC0415

    records = [Record("update", "steady", 0, "c", at + late * n / _CALLS, at, end=at + 1) for n in range(_CALLS) if (at := 10 + n / _RATE)]
    found = figures.rate(spark.createDataFrame(_table(records)), _RATE)
    assert found is not None and found.held is held
    assert found.achieved == pytest.approx(_RATE / (1 + late), rel=0.01)
    assert figures.rate(spark.createDataFrame(_table([Record("update", "steady", 0, "c", 1.0, end=2.0)])), 0) is None


def _table(records: list[Record]) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415

    return pa.Table.from_batches(list(batches(records)))
