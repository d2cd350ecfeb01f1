"""The document of a key at a past time is returned if it is certain, and refused otherwise."""

from __future__ import annotations

import pytest

from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed
from topicpolicies_server.core.reading.cell import Head
from topicpolicies_server.history.entries import BEFORE_KNOWN, Entry, Gap, GapReason
from topicpolicies_server.history.history import Past, document_at, document_of_version

KEY = PolicyKey("persistent://a/b/c", Scope.LOCAL)
NOW = 1_000


def entry(at: int, version: str, previous: str, *, before: bytes | None = None, after: bytes | None = None) -> Entry:
    flags = BEFORE_KNOWN if previous else 0
    return Entry(
        1, 1, version, 1, at, at, 1, 1, KEY.topic, 1,
        version=version, previous=previous, flags=flags, kept_before=before, after=after, changed_json='["x"]',
    )  # fmt: skip


def head(version: str, at: int, document: dict[str, bytes] | None) -> Head:
    return Head(KEY, document, version, "", Placed(0, version, None, at), 1)


def replicated(version: str, at: int, document: dict[str, bytes]) -> Head:
    event = Event(KEY, Action.UPDATE, document, None, replicated=True)
    return Head(KEY, document, version, "", Placed(0, version, event, at), 1)


def gap(since: int | None, until: int) -> Gap:
    return Gap("a/b", since, until, GapReason.COMPACTED)


FIRST = entry(100, "v1", "0", after=b"one")
SECOND = entry(200, "v2", "v1", before=b"one", after=b"two")
THIRD = entry(300, "v3", "v2", before=b"two", after=b"three")
UNLINKED = entry(300, "v3", "", after=b"three")
FOURTH = entry(400, "v4", "v3", before=b"three", after=b"four")
DELETED = entry(200, "v2", "v1", before=b"one", after=None)
ANEW = entry(300, "v3", "0", after=b"three")
AHEAD = SECOND._replace(at=NOW + 1)


@pytest.mark.parametrize(
    ("at", "last", "first", "present", "gaps", "past"),
    [
        pytest.param(150, FIRST, SECOND, None, [], Past(b"one", "v1"), id="between two events"),
        pytest.param(150, FIRST, SECOND, None, [gap(110, 190)], Past(b"one", "v1"), id="a gap between events that are linked"),
        pytest.param(250, SECOND, THIRD, None, [gap(None, 200)], Past(b"two", "v2"), id="a gap that is over"),
        pytest.param(400, THIRD, None, head("v3", 300, {"x": b"three"}), [gap(310, 500)], Past(b"three", "v3"), id="the head is the same"),
        pytest.param(250, DELETED, ANEW, None, [], Past(None, "v2"), id="a deletion that the log had forgotten by the next event"),
        pytest.param(400, THIRD, None, head("v2", 200, {"x": b"two"}), [], Past(b"three", "v3"), id="an older head"),
        pytest.param(400, DELETED, None, head("v9", 300, None), [], Past(None, "v2"), id="a head that is as absent, by a later tombstone"),
        pytest.param(50, None, FIRST, None, [], Past(None, "0"), id="before the first event ever"),
        pytest.param(50, None, FIRST, None, [gap(None, 40)], Past(None, "0"), id="before the first event ever, behind a gap"),
        pytest.param(150, None, SECOND, None, [gap(None, 120)], Past(b"one", "v1"), id="before the first that is kept"),
        pytest.param(400, None, None, head("v9", 40, {"x": b"x"}), [gap(None, 900)], Past(b"x", "v9"), id="only the head, older than that"),
        pytest.param(400, None, None, None, [], Past(None, "0"), id="nothing is known, and nothing is missing"),
    ],
)
def test_a_document_that_is_certain_is_returned(
    at: int, last: Entry | None, first: Entry | None, present: Head | None, gaps: list[Gap], past: Past
) -> None:
    assert document_at(at, NOW, last, first, present, gaps) == past


@pytest.mark.parametrize(
    ("at", "last", "first", "present", "gaps"),
    [
        pytest.param(250, SECOND, UNLINKED, None, [gap(210, 290)], id="a gap between events that are not linked"),
        pytest.param(250, SECOND, FOURTH, None, [], id="an event between two that are known is missing, and no gap was recorded"),
        pytest.param(400, THIRD, None, head("v9", 350, {"x": b"x"}), [], id="a newer head, and no gap was recorded"),
        pytest.param(150, FIRST, AHEAD, None, [], id="the clock went back since the next event"),
        pytest.param(150, None, SECOND, None, [], id="the event before the first that is kept is missing, and no gap was recorded"),
        pytest.param(400, THIRD, None, head("v9", 600, {"x": b"x"}), [gap(310, 500)], id="a gap before another head"),
        pytest.param(400, THIRD, None, None, [gap(310, 500)], id="a gap, and the head is gone"),
        pytest.param(50, None, SECOND, None, [gap(None, 120)], id="in the gap before the first that is kept"),
        pytest.param(
            50, None, FIRST, None, [gap(None, 90)], id="in a gap, before what met a deletion that the log had forgotten, or nothing"
        ),
        pytest.param(50, None, UNLINKED, None, [], id="before the first, of which it is not known what was before"),
        pytest.param(400, None, None, head("v9", 600, {"x": b"x"}), [], id="before the head, without any event"),
        pytest.param(400, None, None, None, [gap(None, 900)], id="nothing is known, and something may be missing"),
        pytest.param(400, None, None, replicated("v9", 40, {"x": b"x"}), [gap(None, 900)], id="only the head, which may have come since"),
    ],
)
def test_a_document_that_is_not_certain_is_refused(
    at: int, last: Entry | None, first: Entry | None, present: Head | None, gaps: list[Gap]
) -> None:
    with pytest.raises(PolicyError) as caught:
        document_at(at, NOW, last, first, present, gaps)
    assert (caught.value.kind, caught.value.reason) == (Kind.OUT_OF_RANGE, "NOT_IN_HISTORY")
    if gaps:
        assert caught.value.metadata["gap_end_ms"] == str(gaps[0].until)


def test_a_version_is_found_in_the_history_or_in_the_head_and_otherwise_refused() -> None:
    assert document_of_version(SECOND, "v2", None) == Past(b"two", "v2")
    assert document_of_version(None, "v9", head("v9", 40, {"x": b"x"})) == Past(b"x", "v9")
    assert document_of_version(None, "0", None) == Past(None, "0")
    with pytest.raises(PolicyError, match="no such version"):
        document_of_version(None, "v7", head("v9", 40, None))
