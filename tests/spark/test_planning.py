"""What is read is planned without reading: options, offsets, and how much one batch takes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from topicpolicies_spark.admission import admit
from topicpolicies_spark.brokers import Ledgers, Log, Place, place_of
from topicpolicies_spark.offsets import offset_of, places_of, ranges
from topicpolicies_spark.options import OptionError, microseconds, read_options, time_of
from topicpolicies_spark.reading import EntryIntervals

GIVEN = {"serviceUrl": "pulsar://broker:6650", "adminUrl": "http://broker:8080/"}
LEDGERS = Ledgers(Place(9, 3), [(4, 10), (7, 5), (9, 4)], False, None)


def test_options_are_read_without_regard_to_case() -> None:
    options = read_options({**GIVEN, "TENANTS": "acme, other", "maxrowspertrigger": "7", "since": "2030-01-01", "MODE": "compacted"})
    assert options.admin_url == "http://broker:8080"
    assert options.compacted and options.most_rows == 7
    assert options.includes("acme/orders") and not options.includes("public/default")
    assert options.published(microseconds(datetime(2030, 1, 1, tzinfo=UTC)))
    assert not options.published(microseconds(datetime(2029, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)))


def test_everything_that_is_wrong_with_options_is_said_at_once() -> None:
    wrong = {"mode": "some", "namespaces": "acme", "since": "then", "maxRowsPerTrigger": "0", "topik": "x", "startingOffsets": "5"}
    with pytest.raises(OptionError) as raised:
        read_options(wrong)
    for name in ("serviceUrl", "adminUrl", "mode", '"acme"', "since", "maxRowsPerTrigger", "topik", "startingOffsets"):
        assert name in str(raised.value)


def test_a_time_without_a_zone_is_utc() -> None:
    assert time_of("1970-01-01T00:00:01") == time_of("1970-01-01T01:00:01+01:00") == 1_000_000


def test_offsets_survive_being_written_down() -> None:
    places = {"acme/orders/0": Place(12, 34), "acme/orders/1": Place(3, -1)}
    assert places_of(offset_of(places)) == places
    for wrong in ({}, {"format": 2, "logs": {}}, {"format": 1, "logs": {"a/b/0": "x"}}):
        with pytest.raises(ValueError, match="not an offset"):
            places_of(wrong)
    assert place_of("5:-1") == Place(5, -1)
    assert place_of("-1:-1") is None and place_of(None) is None


def test_a_range_is_what_lies_between_two_offsets() -> None:
    logs = [Log("a/b", 0, "t0"), Log("a/b", 1, "t1"), Log("c/d", 0, "t2")]
    start = {"a/b/0": Place(1, 5), "a/b/1": Place(2, 0)}
    end = {"a/b/0": Place(1, 5), "a/b/1": Place(2, 3), "c/d/0": Place(7, 1)}
    assert [(part.log.name, part.start, part.end) for part in ranges(logs, start, end)] == [
        ("a/b/1", Place(2, 0), Place(2, 3)),
        ("c/d/0", None, Place(7, 1)),
    ]


@pytest.mark.parametrize(
    ("start", "rows", "end"),
    [
        (None, 3, Place(4, 2)),
        (None, 10, Place(4, 9)),
        (None, 11, Place(7, 0)),
        (Place(4, 2), 8, Place(7, 0)),
        (Place(4, 9), 6, Place(9, 0)),
        (Place(5, 3), 1, Place(7, 0)),
        (Place(7, 0), 100, Place(9, 3)),
    ],
)
def test_a_batch_ends_after_so_many_entries_over_ledgers(start: Place | None, rows: int, end: Place) -> None:
    assert LEDGERS.after(start, rows) == end


def test_what_compaction_left_of_deleted_ledgers_comes_first_and_alone() -> None:
    compacted = LEDGERS._replace(compacted=True)
    assert compacted.after(None, 3) == compacted.after(Place(2, 8), 3) == Place(4, -1)
    assert compacted.after(Place(4, -1), 3) == Place(4, 2)


def test_every_log_with_something_new_has_its_share_and_goes_on() -> None:
    logs = {"a": LEDGERS, "b": LEDGERS, "c": LEDGERS, "empty": Ledgers(Place(-1, -1), [], False, None)}
    start = {"a": LEDGERS.end}
    end = admit(start, logs, 6)
    assert end == {"a": LEDGERS.end, "b": Place(4, 2), "c": Place(4, 2)}
    assert admit(start, logs, None) == {"a": LEDGERS.end, "b": LEDGERS.end, "c": LEDGERS.end}
    assert admit({}, logs, 1)["a"] == Place(4, 0), "however little is let through, everybody goes on"
    steps = 0
    while (after := admit(end, logs, 6)) != end:
        end, steps = after, steps + 1
    assert end == {"a": LEDGERS.end, "b": LEDGERS.end, "c": LEDGERS.end} and steps > 3


def test_what_was_seen_is_known_and_so_are_its_gaps() -> None:
    seen = EntryIntervals()
    for place in (Place(4, 1), Place(4, 2), Place(4, 3), Place(7, 0), Place(7, 2)):
        seen.add(place)
    assert [place in seen for place in (Place(4, 0), Place(4, 2), Place(5, 0), Place(7, 0), Place(7, 1), Place(7, 2))] == [
        False, True, False, True, False, True,
    ]  # fmt: skip
    assert not seen.covers(Place(4, 0), Place(7, 2))
    whole = EntryIntervals()
    for entry in range(1, 4):
        whole.add(Place(4, entry))
    assert whole.covers(Place(4, 0), Place(4, 3))
    assert not whole.covers(None, Place(4, 3)), "nobody knows what stood before the first"
    assert not whole.covers(Place(4, 0), Place(4, 4))
