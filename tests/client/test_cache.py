"""A cache holds what a watch told of, and forgets what a new snapshot does not tell of again."""

from __future__ import annotations

import topicpolicies as tp
from topicpolicies.v1 import service_pb2

A, B = "public/a", "public/b"
TOKEN = tp.WatchToken("log", ())
ORIGIN = tp.Origin.of(service_pb2.ChangeOrigin())


def changed(namespace: str, local: str, value: int, *, scope: tp.Scope = tp.Scope.LOCAL) -> tp.Changed:
    policies = tp.TopicPolicies(max_producer_per_topic=value)
    return tp.Changed(namespace, f"persistent://{namespace}/{local}", scope, policies, f"v{value}", "", 0, "", ORIGIN, snapshot=False)


def deleted(namespace: str, local: str) -> tp.Deleted:
    return tp.Deleted(namespace, f"persistent://{namespace}/{local}", tp.Scope.LOCAL, "v9", "", 0, "", ORIGIN, snapshot=False)


def topics(cache: tp.PolicyCache) -> set[str]:
    return {document.topic.rpartition("/")[2] for document in cache}


def test_it_moves_along_with_changes_and_deletes() -> None:
    cache = tp.PolicyCache()
    cache.apply(changed(A, "t", 1))
    cache.apply(changed(A, "t", 2, scope=tp.Scope.GLOBAL))
    cache.apply(changed(A, "t", 3))
    assert len(cache) == 2
    document = cache.get(f"persistent://{A}/t")
    assert document is not None
    assert document.version == "v3"
    assert document.exists
    cache.apply(deleted(A, "t"))
    cache.apply(deleted(A, "never-there"))
    assert cache.get(f"persistent://{A}/t") is None
    assert cache.get(f"persistent://{A}/t", tp.Scope.GLOBAL) is not None


def test_a_new_snapshot_replaces_its_namespace_when_it_is_complete() -> None:
    cache = tp.PolicyCache()
    for event in (changed(A, "kept", 1), changed(A, "gone", 1), changed(B, "other", 1), tp.Synced(A, TOKEN), tp.Synced(B, TOKEN)):
        cache.apply(event)
    cache.apply(tp.Restarted(A, "because"))
    assert not cache.synced(A)
    assert cache.synced(B)
    cache.apply(changed(A, "kept", 2))
    cache.apply(changed(A, "new", 2))
    assert topics(cache) == {"kept", "gone", "new", "other"}, "what was known stays until the snapshot is complete"
    cache.apply(tp.Restarted(A, "and again"))
    cache.apply(changed(A, "kept", 2))
    cache.apply(tp.Synced(A, TOKEN))
    assert topics(cache) == {"kept", "other"}
    assert cache.synced(A)


def test_other_events_change_nothing() -> None:
    cache = tp.PolicyCache()
    cache.apply(changed(A, "t", 1))
    for event in (tp.Bookmark(A, TOKEN), tp.NamespaceLoading(A, ""), tp.NamespaceUnavailable(A, ""), tp.Synced(A, TOKEN)):
        cache.apply(event)
    cache.apply(tp.Interrupted(tp.Unavailable("x"), 1, 0.1))
    assert topics(cache) == {"t"}
