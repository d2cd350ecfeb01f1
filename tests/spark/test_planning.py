"""Batches are planned without reading the logs: options, offsets, and the size of a batch."""

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


def test_names_of_options_are_case_insensitive() -> None:
    options = read_options({**GIVEN, "TENANTS": "acme, other", "maxrowspertrigger": "7", "since": "2030-01-01", "MODE": "compacted"})
    assert options.admin_url == "http://broker:8080"
    assert options.compacted and options.most_rows == 7
    assert options.includes("acme/orders") and not options.includes("public/default")
    assert options.published(microseconds(datetime(2030, 1, 1, tzinfo=UTC)))
    assert not options.published(microseconds(datetime(2029, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)))


def test_all_errors_in_options_are_reported_at_once() -> None:
    wrong = {"mode": "some", "namespaces": "acme", "since": "then", "maxRowsPerTrigger": "0", "topik": "x", "startingOffsets": "5"}
    with pytest.raises(OptionError) as raised:
        read_options(wrong)
    for name in ("serviceUrl", "adminUrl", "mode", '"acme"', "since", "maxRowsPerTrigger", "topik", "startingOffsets"):
        assert name in str(raised.value)


def test_topics_may_be_named_without_their_domain_and_by_a_partition() -> None:
    options = read_options({**GIVEN, "topics": "acme/orders/a, persistent://acme/orders/b-partition-7,non-persistent://acme/orders/c"})
    assert options.topics == {"persistent://acme/orders/a", "persistent://acme/orders/b", "non-persistent://acme/orders/c"}


def test_a_time_without_a_zone_is_utc() -> None:
    assert time_of("1970-01-01T00:00:01") == time_of("1970-01-01T01:00:01+01:00") == 1_000_000


def test_offsets_are_parsed_back_and_other_texts_are_refused() -> None:
    places = {"acme/orders/0": Place(12, 34), "acme/orders/1": Place(3, -1)}
    assert places_of(offset_of(places)) == places
    for wrong in (
        {},
        {"format": 2, "logs": {}},
        {"format": 1, "logs": {"a/b/0": "x"}},
        {"format": 1, "history": {}},
        {"format": 1, "logs": []},
    ):
        with pytest.raises(ValueError, match=r"not an offset of .* logs, so this query needs another checkpoint"):
            places_of(wrong)
    assert place_of("5:-1") == Place(5, -1)
    assert place_of("-1:-1") is None and place_of(None) is None


def test_ranges_are_the_parts_of_logs_between_two_offsets() -> None:
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
def test_a_batch_ends_after_the_given_number_of_entries_across_ledgers(start: Place | None, rows: int, end: Place) -> None:
    assert LEDGERS.after(start, rows) == end


def test_the_compacted_part_of_deleted_ledgers_is_the_first_batch_by_itself() -> None:
    compacted = LEDGERS._replace(compacted=True)
    assert compacted.after(None, 3) == compacted.after(Place(2, 8), 3) == Place(4, -1)
    assert compacted.after(Place(4, -1), 3) == Place(4, 2)


def test_every_log_with_new_entries_has_a_share_of_each_batch_and_reaches_its_end() -> None:
    logs = {"a": LEDGERS, "b": LEDGERS, "c": LEDGERS, "empty": Ledgers(Place(-1, -1), [], False, None)}
    start = {"a": LEDGERS.end}
    end = admit(start, logs, 6)
    assert end == {"a": LEDGERS.end, "b": Place(4, 2), "c": Place(4, 2)}
    assert admit(start, logs, None) == {"a": LEDGERS.end, "b": LEDGERS.end, "c": LEDGERS.end}
    assert admit({}, logs, 1)["a"] == Place(4, 0), "every log advances, however small the batch"
    steps = 0
    while (after := admit(end, logs, 6)) != end:
        end, steps = after, steps + 1
    assert end == {"a": LEDGERS.end, "b": LEDGERS.end, "c": LEDGERS.end} and steps > 3


def test_entry_intervals_know_the_added_entries_and_the_gaps_between_them() -> None:
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
    assert not whole.covers(None, Place(4, 3)), "entries before the first are not known"
    assert not whole.covers(Place(4, 0), Place(4, 4))


def test_the_end_of_a_closed_ledger_is_as_good_as_the_beginning_of_the_next() -> None:
    for place, then in ((Place(4, 9), Place(7, -1)), (Place(7, 4), Place(9, -1)), (Place(7, 3), Place(7, 3)), (Place(9, 3), Place(9, 3))):
        assert LEDGERS.settled(place) == then
    deleted = Ledgers(Place(9, 3), [(12, 0)], False, None)
    assert deleted.settled(Place(9, 3)) == Place(12, -1) and deleted.settled(Place(9, 2)) == Place(9, 2)
    assert deleted.settled(Place(8, 2)) == Place(8, 2), "nothing tells how that ledger ended"
