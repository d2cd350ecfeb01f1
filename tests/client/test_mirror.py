"""A mirror holds the documents that a watch delivered, and removes those that are missing from a new snapshot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import topicpolicies as tp

A, B = "public/a", "public/b"
TOKEN = tp.WatchToken("log", ())
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def changed(namespace: str, local: str, version: str, *, scope: tp.Scope = tp.Scope.LOCAL, exists: bool = True) -> tp.Changed:
    policies = tp.TopicPolicies(max_producer_per_topic=1) if exists else None
    document = tp.Document(f"persistent://{namespace}/{local}", scope, policies, version)
    return tp.Changed(namespace, document, "", None, 0, "", None, snapshot=False)


def synced(namespace: str, confirmed: datetime = NOON) -> tp.Synced:
    return tp.Synced(namespace, TOKEN, confirmed)


def topics(mirror: tp.Mirror) -> list[str]:
    return [document.topic.rpartition("/")[2] for document in mirror]


def mirror_of(*events: tp.WatchEvent) -> tp.Mirror:
    mirror = tp.Mirror([A, B])
    for event in events:
        mirror.apply(event)
    return mirror


def test_a_mirror_follows_changes_and_deletions() -> None:
    mirror = mirror_of(changed(A, "t", "v1"), changed(A, "t", "v2", scope=tp.Scope.GLOBAL), synced(A), changed(A, "t", "v3"))
    assert len(mirror) == 2
    document = mirror.get(f"persistent://{A}/t")
    assert document is not None
    assert document.version == "v3"
    mirror.apply(changed(A, "t", "v9", exists=False))
    mirror.apply(changed(A, "never-there", "v9", exists=False))
    assert mirror.get(f"persistent://{A}/t") is None
    assert mirror.get(f"persistent://{A}/t", tp.Scope.GLOBAL) is not None
    assert len(mirror) == 1


@pytest.mark.parametrize("name", [f"persistent://{A}/t", f"{A}/t", f"{A}/t-partition-0", f"persistent://{A}/t-partition-17"])
def test_a_topic_is_found_by_any_of_its_names(name: str) -> None:
    assert mirror_of(changed(A, "t", "v1")).get(name) is not None


@pytest.mark.parametrize("name", [f"non-persistent://{A}/t", f"{A}/t-partition-00", f"{B}/t", "t"])
def test_another_topic_or_a_malformed_name_is_not_found(name: str) -> None:
    assert mirror_of(changed(A, "t", "v1")).get(name) is None


def test_a_new_snapshot_replaces_the_documents_of_its_namespace_once_it_is_complete() -> None:
    mirror = mirror_of(changed(A, "kept", "v1"), changed(A, "gone", "v1"), changed(B, "other", "v1"), synced(A), synced(B))
    mirror.apply(tp.Reset(A, "LOG_REPLACED", "because"))
    assert mirror.synced(A), "the old documents are complete"
    mirror.apply(changed(A, "kept", "v0"))
    mirror.apply(changed(A, "new", "v0"))
    assert topics(mirror) == ["gone", "kept", "new", "other"], "the old documents are kept until the snapshot is complete"
    mirror.apply(tp.Reset(A, "", "and again"))
    mirror.apply(changed(A, "kept", "u0"))
    mirror.apply(synced(A))
    assert topics(mirror) == ["kept", "other"]
    document = mirror.get(f"{A}/kept")
    assert document is not None
    assert document.version == "u0"


def test_within_a_snapshot_the_newer_of_two_versions_is_kept() -> None:
    mirror = mirror_of(changed(A, "t", "v6"), changed(A, "t", "v5"), synced(A))
    document = mirror.get(f"{A}/t")
    assert document is not None
    assert document.version == "v6"


def test_a_listener_gets_the_current_documents_and_then_each_document_before_and_after_a_change() -> None:
    mirror = mirror_of(changed(A, "t", "v1"), synced(A))
    calls: list[tuple[str | None, str | None]] = []

    def listen(change: tp.Change) -> None:
        calls.append((change.before.version if change.before else None, change.after.version if change.after else None))

    stop = mirror.listen(listen)
    for event in (changed(A, "t", "v2"), changed(A, "t", "v2"), changed(A, "t", "v3", exists=False), changed(A, "u", "v1", exists=False)):
        mirror.apply(event)
    mirror.apply(tp.Reset(A, "LOG_REPLACED", ""))
    mirror.apply(changed(A, "u", "u1"))
    stop()
    mirror.apply(changed(A, "u", "u2"))
    assert calls == [(None, "v1"), ("v1", "v2"), ("v2", None), (None, "u1")]


def test_a_listener_that_another_one_has_removed_is_not_called_any_more() -> None:
    mirror = mirror_of(synced(A))
    told: list[tp.Change] = []
    mirror.listen(lambda _: stop())
    stop = mirror.listen(told.append)
    mirror.apply(changed(A, "t", "v1"))
    assert not told


def test_a_listener_that_raises_leaves_no_document_that_is_missing_from_a_new_snapshot() -> None:
    mirror = mirror_of(*(changed(A, topic, "v1") for topic in "tuv"), synced(A), tp.Reset(A, "LOG_REPLACED", ""))

    def listen(change: tp.Change) -> None:
        if change.after is None:
            raise LookupError(change.topic)

    mirror.listen(listen)
    with pytest.raises(LookupError):
        mirror.apply(synced(A))
    assert len(mirror) == 0


def test_an_absence_is_removed_at_the_next_bookmark() -> None:
    mirror = mirror_of(synced(A), changed(A, "t", "v6", exists=False), changed(A, "t", "v5"))
    assert len(mirror) == 0, "an older change does not restore the document"
    assert len(mirror._namespaces[A].documents) == 1
    mirror.apply(tp.Bookmark(A, TOKEN, NOON))
    assert not mirror._namespaces[A].documents


def test_a_mirror_is_as_stale_as_its_stalest_namespace_and_only_bookmarks_make_it_fresher() -> None:
    now = 100.0
    mirror = tp.Mirror([A, B], lambda: now)
    mirror.apply(synced(A))
    assert mirror.staleness() == float("inf")
    mirror.apply(synced(B, NOON - timedelta(seconds=8)))
    now = 101.0
    assert (mirror.staleness(A), mirror.staleness(B), mirror.staleness()) == (1, 9, 9)
    assert mirror.staleness("not/watched") == float("inf")
    mirror.apply(changed(B, "t", "v1"))
    mirror.apply(tp.Status(B, tp.NamespaceState.READY, "", ""))
    assert mirror.staleness() == 9
    mirror.apply(tp.Bookmark(B, TOKEN, NOON + timedelta(seconds=3)))
    assert mirror.staleness(B) == 0


def test_after_an_interruption_the_staleness_is_measured_by_the_next_servers_clock() -> None:
    now = 100.0
    mirror = tp.Mirror([A], lambda: now)
    mirror.apply(synced(A))
    mirror.apply(tp.Interrupted(tp.Unavailable("x"), 1, 0.1))
    now = 105.0
    mirror.apply(synced(A, NOON - timedelta(hours=1)))
    assert mirror.staleness() == 0, "the next server's clock is an hour behind, which does not make the copy older"


def test_the_problem_of_a_mirror_is_set_until_each_namespace_can_be_followed_again() -> None:
    mirror = mirror_of(synced(A), synced(B))
    problems = [mirror.problem]
    for event in (
        tp.Status(A, tp.NamespaceState.FAILED, "LOG_UNREACHABLE", "nobody answers"),
        tp.Interrupted(tp.Unavailable("no connection"), 1, 0.1),
        tp.Reset(B, "", "begins again"),
        synced(B),
        tp.Status(A, tp.NamespaceState.DISABLED, "TOPIC_POLICIES_DISABLED", "they are off"),
        tp.Status(A, tp.NamespaceState.READY, "", ""),
    ):
        mirror.apply(event)
        problems.append(mirror.problem)
    assert problems == ["", "nobody answers", "no connection", "no connection", "", "they are off", ""]
    assert mirror.states[A].state is tp.NamespaceState.READY


def test_gaps_bookmarks_and_statuses_change_no_document() -> None:
    mirror = mirror_of(changed(A, "t", "v1"))
    gap = tp.HistoryGap(None, NOON, tp.HistoryGapReason.TRIMMED)
    for event in (tp.Gap(A, gap), tp.Bookmark(A, TOKEN, NOON), tp.Status(A, tp.NamespaceState.LOADING, "", ""), synced(A)):
        mirror.apply(event)
    assert topics(mirror) == ["t"]
