"""A stream over brokers' logs plans the ranges between two offsets, and fails if a log is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from topicpolicies_spark.brokers import Place
from topicpolicies_spark.offsets import DataLossError, offset_of
from topicpolicies_spark.options import read_options
from topicpolicies_spark.source import BatchReader, RangePartition, StreamReader

from .admin_api import AdminApi, admin_api

ORDERS, BILLS = "persistent/acme/orders/__change_events", "persistent/acme/bills/__change_events"
STATS: dict[str, Any] = {"lastConfirmedEntry": "7:4", "ledgers": [{"ledgerId": 7, "entries": 0}]}
ANSWERS: dict[str, Any] = {
    "namespaces/acme": ["acme/bills", "acme/orders"],
    f"{ORDERS}/partitions": {"partitions": 0},
    f"{ORDERS}/internalStats": STATS,
    f"{BILLS}/partitions": {"partitions": 0},
    f"{BILLS}/internalStats": STATS,
}
END = Place(7, 4)


@pytest.fixture
def broker() -> Iterator[AdminApi]:
    """A broker with two logs."""
    with admin_api(ANSWERS) as api:
        yield api


def _stream(broker: AdminApi, **more: str) -> StreamReader:
    return StreamReader(read_options({"serviceUrl": "pulsar://broker:6650", "adminUrl": broker.url, "tenants": "acme", **more}))


def _planned(parts: Any) -> list[tuple[str, Place]]:
    assert all(isinstance(part, RangePartition) for part in parts)
    return [(part.range.log.name, part.range.end) for part in parts]


def test_a_batch_of_a_stream_has_a_task_for_each_log_with_new_entries(broker: AdminApi) -> None:
    stream = _stream(broker)
    end = stream.latestOffset(offset_of({}), stream.getDefaultReadLimit())
    assert end == offset_of({"acme/bills/0": END, "acme/orders/0": END})
    assert _planned(stream.partitions(offset_of({"acme/orders/0": END}), end)) == [("acme/bills/0", END)]


def test_planning_a_batch_fails_if_a_log_with_unread_entries_is_missing(broker: AdminApi) -> None:
    stream = _stream(broker)
    end = stream.latestOffset(offset_of({}), stream.getDefaultReadLimit())
    broker.answers[f"{ORDERS}/partitions"] = 404
    with pytest.raises(DataLossError, match=r"acme/orders/0.*failOnDataLoss") as raised:
        stream.partitions(offset_of({}), end)
    assert "acme/bills" not in str(raised.value)
    assert _planned(_stream(broker, failOnDataLoss="false").partitions(offset_of({}), end)) == [("acme/bills/0", END)]
    assert _planned(stream.partitions(offset_of({"acme/orders/0": END}), end)) == [("acme/bills/0", END)], "it was read to its end"


def test_a_query_fails_if_a_log_vanishes_before_the_query_has_read_it_to_the_end(broker: AdminApi) -> None:
    careful, careless = _stream(broker), _stream(broker, failOnDataLoss="false")
    for stream in (careful, careless):
        stream.prepareForTriggerAvailableNow()
    broker.answers[f"{ORDERS}/partitions"] = 404
    start = {"acme/orders/0": Place(7, 2), "acme/bills/0": END}
    with pytest.raises(DataLossError, match="acme/orders/0"):
        careful.latestOffset(offset_of(start), ReadAllAvailable())
    assert careless.latestOffset(offset_of(start), ReadAllAvailable()) == offset_of(start)
    read = {**start, "acme/orders/0": END}
    assert careful.latestOffset(offset_of(read), ReadAllAvailable()) == offset_of(read), "the log was read to its end"


def test_a_log_that_vanishes_between_two_requests_keeps_its_offset(broker: AdminApi) -> None:
    broker.answers[f"{ORDERS}/internalStats"] = 404
    stream = _stream(broker)
    before = {"acme/orders/0": Place(7, 2)}
    assert stream.latestOffset(offset_of(before), stream.getDefaultReadLimit()) == offset_of({**before, "acme/bills/0": END})
    assert _planned(BatchReader(stream.options).partitions()) == [("acme/bills/0", END)]


def test_a_ledger_that_is_deleted_after_it_was_read_to_its_end_is_no_loss(broker: AdminApi) -> None:
    stream, latest = _stream(broker, namespaces="acme/orders"), _stream(broker, namespaces="acme/orders", startingOffsets="latest")
    taken = offset_of({"acme/orders/0": END})
    closed = {"lastConfirmedEntry": "7:4", "ledgers": [{"ledgerId": 7, "entries": 5}, {"ledgerId": 9, "entries": 0}]}
    deleted = {"lastConfirmedEntry": "7:4", "ledgers": [{"ledgerId": 9, "entries": 0}]}
    for stats in (closed, deleted, {**deleted, "lastConfirmedEntry": "9:-1"}):
        broker.answers[f"{ORDERS}/internalStats"] = stats
        assert stream.latestOffset(taken, ReadAllAvailable()) == taken, "there is nothing new"
        if stats is not closed:
            assert latest.initialOffset() == offset_of({"acme/orders/0": Place(9, -1)})
    broker.answers[f"{ORDERS}/internalStats"] = {"lastConfirmedEntry": "9:1", "ledgers": [{"ledgerId": 9, "entries": 0}]}
    end = stream.latestOffset(taken, ReadAllAvailable())
    assert end == offset_of({"acme/orders/0": Place(9, 1)})
    (part,) = stream.partitions(taken, end)
    assert isinstance(part, RangePartition) and part.range.start == Place(9, -1)
    (other,) = _stream(broker, namespaces="acme/orders").partitions(taken, end)
    assert isinstance(other, RangePartition) and other.range.start == END, "it did not see how the ledger ended"


def test_a_range_from_the_beginning_knows_the_first_entry_of_its_log(broker: AdminApi) -> None:
    broker.answers[f"{ORDERS}/internalStats"] = {"lastConfirmedEntry": "7:4", "ledgers": [{"ledgerId": 5, "entries": 0}, *STATS["ledgers"]]}
    stream = _stream(broker, namespaces="acme/orders")
    end = stream.latestOffset(offset_of({}), ReadAllAvailable())
    for parts in (stream.partitions(offset_of({}), end), BatchReader(stream.options).partitions()):
        assert [part.range.first for part in parts if isinstance(part, RangePartition)] == [Place(7, 0)]
