"""After a tombstone was compacted away, some violations of promises about its key are allowed, and counted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from . import judge
from .documents import Edit
from .records import Answer, Failure, Head, History, Key, Outcome, Update

KEY = Key("persistent://acme/orders/invoices")
OTHER = Key("persistent://acme/orders/others")
SET = Edit(sets={"a": 1})
MADE = Head(KEY, "11", "0", {"a": 1}, 1.0, "one")
DELETED = Head(KEY, "12", "11", None, 2.0, "gone")
AGAIN = Head(KEY, "14", "0", {"a": 1}, 5.0, "one")


def _update(request_id: str, answer: Answer | Failure | None, at: float, *, edit: Edit = SET, etag: str = "") -> Update:
    return Update(
        client="c",
        sidecar="s",
        invoked=at,
        answered=at + 0.5,
        key=KEY,
        request_id=request_id,
        edit=edit,
        etag=etag,
        answer=answer,
    )


SENT = [
    _update("one", Answer(Outcome.APPLIED, "11", "0", {"a": 1}), 0.9),
    _update("gone", Answer(Outcome.APPLIED, "12", "11", None), 1.9, edit=Edit(delete=True)),
]
REPEATED = _update("one", Answer(Outcome.APPLIED, "14", "0", {"a": 1}), 4.9)


def _found(updates: Sequence[Update], heads: Sequence[Head], erased: Sequence[tuple[float, Key]]) -> tuple[set[str], dict[str, int]]:
    judgement = judge(History(partitions={KEY: 0}, updates=[*SENT, *updates], heads=heads, erased=list(erased)))
    return {type(each).__name__ for each in judgement.broken}, {what: count for what, count in judgement.allowed.items() if count}


def test_a_repeat_may_be_applied_again_and_the_key_start_over_after_its_tombstone_was_compacted_away() -> None:
    broken, allowed = _found([REPEATED], [MADE, DELETED, AGAIN], [(3.0, KEY)])
    assert broken == set()
    assert allowed == {"requests applied again": 1, "keys that began anew": 1, "repeats answered anew": 1}


@pytest.mark.parametrize("erased", [[], [(1.5, KEY)], [(5.1, KEY)], [(3.0, OTHER)]], ids=["never", "before", "too late", "another key"])
def test_a_repeat_applied_without_that_compaction_in_between_is_reported_as_applied_twice(erased: list[tuple[float, Key]]) -> None:
    broken, _ = _found([REPEATED], [MADE, DELETED, AGAIN], erased)
    assert {"AppliedTwice", "LostUpdate"} <= broken


def test_a_repeat_applied_to_a_key_that_was_not_deleted_is_reported_as_applied_twice() -> None:
    broken, allowed = _found([], [MADE, AGAIN._replace(previous="11")], [(3.0, KEY)])
    assert "AppliedTwice" in broken and allowed == {}


CONFLICT = _update("new", Failure("ABORTED", "ETAG_MISMATCH", "0"), 4.0, etag="12")


def test_the_etag_of_an_absence_may_conflict_after_its_tombstone_was_compacted_away() -> None:
    assert _found([CONFLICT], [MADE, DELETED], [(3.0, KEY)]) == (set(), {"etags of absences that were conflicts": 1})


@pytest.mark.parametrize("erased", [[], [(1.5, KEY)], [(4.6, KEY)]], ids=["never", "before", "too late"])
def test_a_needless_conflict_without_that_compaction_before_the_answer_is_reported(erased: list[tuple[float, Key]]) -> None:
    assert _found([CONFLICT], [MADE, DELETED], erased)[0] == {"ConditionIgnored"}


def test_a_needless_conflict_with_the_etag_of_a_document_is_reported() -> None:
    conflict = _update("new", Failure("ABORTED", "ETAG_MISMATCH", "0"), 1.7, etag="11")
    judgement = judge(History(updates=[SENT[0], conflict], heads=[MADE], erased=[(1.65, KEY)]))
    assert {type(each).__name__ for each in judgement.broken} == {"ConditionIgnored"}
