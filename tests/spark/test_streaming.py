"""A stream over brokers' logs plans what lies between two offsets, and does not pass over what it can't find."""

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
STATS = {"lastConfirmedEntry": "7:4", "ledgers": [{"ledgerId": 7, "entries": 0}]}
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


def test_a_batch_of_a_stream_has_a_task_for_each_log_with_something_new(broker: AdminApi) -> None:
    stream = _stream(broker)
    end = stream.latestOffset(offset_of({}), stream.getDefaultReadLimit())
    assert end == offset_of({"acme/bills/0": END, "acme/orders/0": END})
    assert _planned(stream.partitions(offset_of({"acme/orders/0": END}), end)) == [("acme/bills/0", END)]


def test_a_log_that_is_not_found_when_a_batch_is_planned_is_not_passed_over(broker: AdminApi) -> None:
    stream = _stream(broker)
    end = stream.latestOffset(offset_of({}), stream.getDefaultReadLimit())
    broker.answers[f"{ORDERS}/partitions"] = 404
    with pytest.raises(DataLossError, match=r"acme/orders/0.*failOnDataLoss") as raised:
        stream.partitions(offset_of({}), end)
    assert "acme/bills" not in str(raised.value)
    assert _planned(_stream(broker, failOnDataLoss="false").partitions(offset_of({}), end)) == [("acme/bills/0", END)]
    assert _planned(stream.partitions(offset_of({"acme/orders/0": END}), end)) == [("acme/bills/0", END)], "nothing of it is to be read"


def test_a_log_that_is_gone_before_a_query_came_to_its_end_is_not_passed_over(broker: AdminApi) -> None:
    careful, careless = _stream(broker), _stream(broker, failOnDataLoss="false")
    for stream in (careful, careless):
        stream.prepareForTriggerAvailableNow()
    broker.answers[f"{ORDERS}/partitions"] = 404
    start = {"acme/orders/0": Place(7, 2), "acme/bills/0": END}
    with pytest.raises(DataLossError, match="acme/orders/0"):
        careful.latestOffset(offset_of(start), ReadAllAvailable())
    assert careless.latestOffset(offset_of(start), ReadAllAvailable()) == offset_of(start)
    read = {**start, "acme/orders/0": END}
    assert careful.latestOffset(offset_of(read), ReadAllAvailable()) == offset_of(read), "it was read to the end"


def test_a_log_that_goes_between_two_questions_ends_where_it_was(broker: AdminApi) -> None:
    broker.answers[f"{ORDERS}/internalStats"] = 404
    stream = _stream(broker)
    before = {"acme/orders/0": Place(7, 2)}
    assert stream.latestOffset(offset_of(before), stream.getDefaultReadLimit()) == offset_of({**before, "acme/bills/0": END})
    assert _planned(BatchReader(stream.options).partitions()) == [("acme/bills/0", END)]
