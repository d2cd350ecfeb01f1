"""Events become rows whatever they contain, and batches of rows have a limited size."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from topicpolicies_server.logs.pulsar.ids import MessageId
from topicpolicies_spark.rows import Change, batches, change_of

from .changes import change

LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


@pytest.mark.parametrize("milliseconds", [253_402_300_800_000, 2**63 // 1_000, 2**63, 2**64 - 1])
def test_an_entry_with_a_publish_time_beyond_the_year_9999_is_a_row_with_a_problem(milliseconds: int) -> None:
    (batch,) = batches([change_of("a/b", 0, MessageId(1, 2, -1), milliseconds, "someone", None, "not readable")])
    (row,) = batch.to_pylist()
    assert row["published"] == LAST
    assert row["problem"] == f"not readable; its publish time, {milliseconds} ms since 1970, is after the year 9999"


def test_the_last_millisecond_of_the_year_9999_is_no_problem() -> None:
    (batch,) = batches([change_of("a/b", 0, MessageId(1, 2, -1), 253_402_300_799_999, "someone", None, "")])
    (row,) = batch.to_pylist()
    assert (row["published"], row["problem"]) == (LAST, None)


def test_batches_of_large_documents_have_few_rows_and_those_of_small_ones_many() -> None:
    taken = 0

    def large() -> Iterator[Change]:
        nonlocal taken
        for number in range(20):
            taken += 1
            yield change(number, "t", {"shadow_topics": ["x" * 4_000_000]})

    made = batches(large())
    assert next(made).num_rows == taken <= 5, "nothing is read ahead of a batch that is large enough"
    assert sum(batch.num_rows for batch in made) == 20 - 5
    small = batches(change(number, "t", {"max_producer_per_topic": number}) for number in range(4_500))
    assert [batch.num_rows for batch in small] == [2_000, 2_000, 500]
