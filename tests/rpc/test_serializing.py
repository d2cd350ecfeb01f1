"""The serialized changes of a batch: watchers share the bytes if they take the same changes and need the same form of them."""

from __future__ import annotations

from tests.core.test_view import A, B, C
from tests.core.test_watch import Bench, drained
from topicpolicies.v1.policies_pb2 import OffloadPolicies, TopicPolicies
from topicpolicies.v1.service_pb2 import WatchPoliciesResponse
from topicpolicies_server.core.policies import secrets
from topicpolicies_server.core.policies.documents import split, wire
from topicpolicies_server.core.reading import tokens
from topicpolicies_server.core.reading.cell import Before
from topicpolicies_server.core.reading.tokens import Token
from topicpolicies_server.core.reading.watch import Taken
from topicpolicies_server.rpc.watching.policy_part import change_event, changes_record

NAME = "acme/orders"


NONE: frozenset[str] = frozenset()
TOKEN = Token("log", ("1", ""))


def shown(records: bytes) -> list[str]:
    return [event.change.document.topic[-1] for event in WatchPoliciesResponse.FromString(records).events]


def watching(count: int) -> list[Taken]:
    """Returns the batches of three changes that so many identical watchers take."""
    bench = Bench()
    watchers = [bench.watch() for _ in range(count)]
    for watcher in watchers:
        drained(watcher)
    bench.change(A, B, C)
    return [watcher.take(100) for watcher in watchers]


def test_watchers_that_take_the_same_changes_share_the_bytes_whose_last_record_has_the_token() -> None:
    first, second, third = watching(3)
    records = changes_record(NAME, first, (wire, False, NONE), TOKEN)
    assert changes_record(NAME, second, (wire, False, NONE), TOKEN) is records
    events = WatchPoliciesResponse.FromString(records).events
    assert [event.resume_token for event in events] == ["", "", tokens.write(TOKEN)]
    without = WatchPoliciesResponse.FromString(changes_record(NAME, third, (wire, False, NONE), None)).events
    assert [event.change for event in without] == [event.change for event in events] and not without[-1].resume_token


def test_previous_documents_are_serialized_only_for_watchers_that_ask_for_them() -> None:
    first, second = watching(2)
    for change in first.heads:
        change.before = Before({})
    without, with_before = (changes_record(NAME, batch, (wire, asks, NONE), None) for batch, asks in ((first, False), (second, True)))
    events = [WatchPoliciesResponse.FromString(each).events for each in (without, with_before)]
    assert [event.change.HasField("previous") for event in events[0]] == [False] * 3
    assert [event.change.HasField("previous") for event in events[1]] == [True] * 3


def test_a_change_with_secrets_is_serialized_in_the_form_that_each_watcher_may_see() -> None:
    (change, *_) = watching(1)[0].heads
    change.document = split(TopicPolicies(offload_policies=OffloadPolicies(s3_managed_ledger_offload_credential_secret="secret")))
    for form, seen in ((secrets.wire, False), (wire, True), (secrets.wire, False)):
        assert (b"secret" in change_event(NAME, change, form, with_before=False)) is seen


def test_changes_of_disabled_topics_are_left_out_only_for_watchers_that_leave_them_out() -> None:
    batches, disabled = watching(3), frozenset({B.topic})
    assert shown(changes_record(NAME, batches[0], (wire, False, NONE), TOKEN)) == ["a", "b", "c"]
    assert shown(changes_record(NAME, batches[1], (wire, False, disabled), TOKEN)) == ["a", "c"]
    assert shown(changes_record(NAME, batches[2], (wire, False, disabled | {C.topic}), TOKEN)) == ["a"]
    assert changes_record(NAME, batches[2], (wire, False, disabled | {A.topic, C.topic}), TOKEN) == b""
