"""After a tombstone was compacted away, some violations of promises about its key are allowed, and counted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from . import judge
from .documents import Document, Edit
from .examples import KEY, update
from .records import Answer, Failure, Foreign, ForgottenDeletion, Head, History, Key, Outcome, Update

OTHER = Key("persistent://acme/orders/others")
SET = Edit(sets={"a": 1})
MADE = Head(KEY, "11", "0", {"a": 1}, 1.0, "one")
DELETED = Head(KEY, "12", "11", None, 2.0, "gone")
AGAIN = Head(KEY, "14", "0", {"a": 1}, 5.0, "one")


SENT = [
    update("one", Answer(Outcome.APPLIED, "11", "0", {"a": 1}), 0.9, seconds=0.5, edit=SET),
    update("gone", Answer(Outcome.APPLIED, "12", "11", None), 1.9, seconds=0.5, edit=Edit(delete=True)),
]
REPEATED = update("one", Answer(Outcome.APPLIED, "14", "0", {"a": 1}), 4.9, seconds=0.5, edit=SET)


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


CONFLICT = update("new", Failure("ABORTED", "PRECONDITION_FAILED", "0"), 4.0, seconds=0.5, edit=SET, demanded="12")


def test_the_etag_of_an_absence_may_conflict_after_its_tombstone_was_compacted_away() -> None:
    assert _found([CONFLICT], [MADE, DELETED], [(3.0, KEY)]) == (set(), {"demanded versions of absences that were conflicts": 1})


@pytest.mark.parametrize("erased", [[], [(1.5, KEY)], [(4.6, KEY)]], ids=["never", "before", "too late"])
def test_a_needless_conflict_without_that_compaction_before_the_answer_is_reported(erased: list[tuple[float, Key]]) -> None:
    assert _found([CONFLICT], [MADE, DELETED], erased)[0] == {"ConditionIgnored"}


def test_a_needless_conflict_with_the_etag_of_a_document_is_reported() -> None:
    conflict = update("new", Failure("ABORTED", "PRECONDITION_FAILED", "0"), 1.7, seconds=0.5, edit=SET, demanded="11")
    judgement = judge(History(updates=[SENT[0], conflict], heads=[MADE], erased=[(1.65, KEY)]))
    assert {type(each).__name__ for each in judgement.broken} == {"ConditionIgnored"}


UNDONE = Head(KEY, "14", "0", {"a": 1, "b": 2}, 5.0)
FORGOTTEN = ForgottenDeletion(KEY, "12", "14")


def _brought_back(
    seen: str | None, forgotten: Sequence[ForgottenDeletion], head: Head = UNDONE, edit: Edit = Edit(sets={"b": 2})
) -> tuple[set[str], dict[str, int]]:
    """Judges another writer's document that has, beside its change, what was deleted before."""
    history = History(
        updates=SENT,
        heads=[MADE, DELETED, head],
        erased=[(3.0, KEY)],
        foreign=[Foreign(KEY, head.version, edit, seen)],
        forgotten_deletions=forgotten,
    )
    judgement = judge(history)
    allowed = {what: count for what, count in judgement.allowed.items() if count and what != "keys that began anew"}
    return {type(each).__name__ for each in judgement.broken}, allowed


@pytest.mark.parametrize("since", ["14", "13"], ids=["the first event since", "a later event"])
def test_a_document_from_before_a_deletion_that_nobody_knows_may_bring_back_what_was_deleted(since: str) -> None:
    found = _brought_back("11", [ForgottenDeletion(KEY, "12", since)])
    assert found == (set(), {"documents from before a deletion that nobody knew": 1})


@pytest.mark.parametrize(
    ("seen", "forgotten"),
    [
        ("11", []),
        ("12", [FORGOTTEN]),
        (None, [FORGOTTEN]),
        ("11", [FORGOTTEN._replace(key=OTHER)]),
        ("11", [FORGOTTEN._replace(since="15")]),
    ],
    ids=["a sidecar knows it", "the writer had seen it", "it is unknown what the writer had seen", "another key", "forgotten later"],
)
def test_a_document_that_brings_back_what_was_deleted_is_reported_otherwise(seen: str | None, forgotten: list[ForgottenDeletion]) -> None:
    assert _brought_back(seen, forgotten) == ({"LostUpdate"}, {})


@pytest.mark.parametrize(
    ("document", "edit"),
    [({"a": 1}, Edit(sets={"b": 2})), (None, Edit(sets={"b": 2})), ({"a": 1}, Edit(delete=True))],
    ids=["not set", "no document", "not deleted"],
)
def test_a_change_of_such_a_document_that_was_not_made_is_reported(document: Document | None, edit: Edit) -> None:
    assert _brought_back("11", [FORGOTTEN], UNDONE._replace(document=document), edit) == ({"LostUpdate"}, {})
