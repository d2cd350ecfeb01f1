"""The options of the data source, each mistake in which is named, and the offsets of its streams."""

from __future__ import annotations

import pytest

from topicpolicies_spark.options import OptionError, read_options
from topicpolicies_spark.rows import SPARK_SCHEMA
from topicpolicies_spark.source import FORMAT, TopicPolicyChanges, offset_of, positions_of

ONE = {"namespaces": "acme/orders"}


def test_by_default_the_sidecar_on_this_machine_is_read_from_the_beginning() -> None:
    options = read_options(ONE)
    assert (options.address, options.starting_offsets, options.ending_offsets) == ("127.0.0.1:6680", "earliest", "latest")
    assert options.includes("acme/orders") and not options.includes("acme/bills") and options.covers(0)


def test_times_are_milliseconds_or_iso_and_the_end_is_excluded() -> None:
    options = read_options({**ONE, "startingTimestamp": "1000", "endingTimestamp": "1970-01-01T00:00:02Z"})
    assert [options.covers(at) for at in (999_999, 1_000_000, 1_999_999, 2_000_000)] == [False, True, True, False]


def test_a_query_begins_and_ends_at_positions() -> None:
    options = read_options({**ONE, "startingOffsets": '{"acme/orders": "a"}', "endingOffsets": '{"acme/orders": "b"}'})
    assert (options.starting_offsets, options.ending_offsets) == ({"acme/orders": "a"}, {"acme/orders": "b"})


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "namespaces is needed, or adminUrl"),
        ({"namespaces": " , "}, "namespaces is needed"),
        ({"namespaces": "acme"}, '"acme" is not a namespace'),
        ({"namespaces": "acme/a/b"}, "is not a namespace"),
        ({**ONE, "historyFile": "h.db", "address": "a:1"}, "exclude each other"),
        ({**ONE, "startingOffsets": "first"}, "startingOffsets must be earliest or latest"),
        ({**ONE, "endingOffsets": "earliest"}, "endingOffsets must be latest"),
        ({**ONE, "endingTimestamp": "soon"}, "endingTimestamp must be"),
        ({**ONE, "maxRowsPerTrigger": "0"}, "maxRowsPerTrigger must be a positive number"),
        ({**ONE, "pushFilters": "true"}, "pushfilters is not an option"),
        ({"mode": "x", "rowsPerTask": "-1"}, "mode is not an option; namespaces is needed, .*; rowsPerTask must be"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        read_options(given)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="endingOffsets is for batches"):
        TopicPolicyChanges({**ONE, "endingOffsets": '{"acme/orders": "b"}'}).streamReader(SPARK_SCHEMA)


def test_offsets_are_parsed_back_and_other_texts_are_refused() -> None:
    positions = {"acme/orders": "0000000000000001abc", "acme/bills": "0000000000000002abc"}
    assert positions_of(offset_of(positions)) == positions
    for wrong in (
        {},
        {"format": FORMAT, "logs": {}},
        {"format": FORMAT + 1, "history": {}},
        {"format": FORMAT, "history": []},
        {"format": FORMAT, "history": {"acme/orders": {"token": None}}},
    ):
        with pytest.raises(ValueError, match="not an offset"):
            positions_of(wrong)
