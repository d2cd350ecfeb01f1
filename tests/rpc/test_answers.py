"""Answers that the server serializes itself equal what Protobuf would write."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import PolicyDocument, Scope, TopicPolicies
from topicpolicies_server.access.caller import EVERYTHING
from topicpolicies_server.core.chains.request import Outcome, Request, Result
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.errors import invalid
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.names import Scope as KeyScope
from topicpolicies_server.core.policies import documents
from topicpolicies_server.rpc import answers
from topicpolicies_server.rpc.errors import status
from topicpolicies_server.rpc.requests import Answer, BatchedChange

TEXTS = st.text(st.characters(codec="utf-8"), max_size=200)
TOPICS = TEXTS.map(lambda local: f"persistent://tenant/namespace/{local or 'x'}")
DOCUMENTS = st.none() | st.builds(TopicPolicies, max_producer_per_topic=st.integers(0, 1 << 31 - 1), deduplication_enabled=st.booleans())
RESULTS = st.tuples(
    st.sampled_from([Outcome.APPLIED, Outcome.UNCHANGED, Outcome.WOULD_APPLY]),
    DOCUMENTS,
    TEXTS,
    TEXTS,
    st.booleans(),
    st.booleans(),
    DOCUMENTS,
)
CHANGE = compile_change(TopicPolicies(), ["max_producer_per_topic"], {})


def settings(policies: TopicPolicies | None) -> documents.Document | None:
    return None if policies is None else documents.split(policies)


def shown(key: PolicyKey, version: str, policies: TopicPolicies | None) -> PolicyDocument:
    """Returns a document as a Protobuf message."""
    document = PolicyDocument(topic=key.topic, scope=Scope.ValueType(key.scope), version=version)
    if policies is not None:
        document.policies.CopyFrom(policies)
    return document


@given(
    TOPICS, st.sampled_from(KeyScope), RESULTS, st.text("0123456789abcdef", min_size=32, max_size=32), st.booleans(), st.booleans(),
)  # fmt: skip
@example(
    "persistent://t/n/" + "x" * 110,
    KeyScope.GLOBAL,
    (Outcome.APPLIED, None, "1" * 127, "1" * 128, False, True, None),
    "0" * 32,
    False,
    True,
)
def test_serialized_answers_equal_those_of_protobuf(
    topic: str,
    scope: KeyScope,
    parts: tuple[Outcome, TopicPolicies | None, str, str, bool, bool, TopicPolicies | None],
    request_id: str,
    deletes: bool,
    include_previous: bool,
) -> None:
    outcome, after, version, previous, replayed, known, before = parts
    key = PolicyKey(topic, scope)
    request = Request(key, None if deletes else CHANGE, request_id, "", include_previous=include_previous)
    result = Result(outcome, settings(after), version, previous, replayed, known, settings(before))
    fields = {"version": version, "previous_version": previous, "request_id": request_id, "replayed": replayed}
    expected = service_pb2.ChangeResult(outcome=outcome.value, **fields)  # type: ignore[arg-type]
    raw = answers.change_answer(request, result, documents.wire)
    if known or (deletes and version):
        expected.document.CopyFrom(shown(key, version, after))
    if include_previous:
        expected.previous.CopyFrom(shown(key, previous, before))
    assert type(expected).FromString(raw) == expected
    assert len(raw) == expected.ByteSize(), "a field is written twice"

    whole = service_pb2.BatchUpdatePoliciesResponse(results=[service_pb2.PolicyChangeResult(success=expected)])
    serialized = answers.batch_answer([batched(request, result)])
    assert service_pb2.BatchUpdatePoliciesResponse.FromString(serialized) == whole
    assert len(serialized) == whole.ByteSize()


def batched(request: Request | None, answer: Answer) -> BatchedChange:
    """Returns a change of a batch, with its answer."""
    return BatchedChange(0, service_pb2.PolicyChangeRequest(), request, granted=EVERYTHING, answer=answer)


def test_documents_that_have_no_room_in_the_answer_to_a_batch_are_left_out_and_later_smaller_ones_are_not() -> None:
    key, large = PolicyKey("persistent://t/n/x", KeyScope.LOCAL), TopicPolicies()
    large.entry_filters.entry_filter_names = "x" * 1_000_000
    sizes = [large, large, large, large, TopicPolicies(max_producer_per_topic=1)]
    changes = [
        batched(Request(key, CHANGE, str(number), ""), Result(Outcome.APPLIED, settings(each), f"{number}1", "0"))
        for number, each in enumerate(sizes)
    ]
    results = service_pb2.BatchUpdatePoliciesResponse.FromString(answers.batch_answer(changes)).results
    assert [each.success.HasField("document") for each in results] == [True, True, True, False, True]
    assert [each.success.version for each in results] == ["01", "11", "21", "31", "41"]


@given(TOPICS, st.sampled_from(KeyScope), TEXTS, DOCUMENTS, st.booleans())
def test_a_serialized_document_equals_that_of_protobuf(
    topic: str, scope: KeyScope, version: str, policies: TopicPolicies | None, disabled: bool
) -> None:
    expected = shown(PolicyKey(topic, scope), version, policies)
    expected.disabled = disabled
    raw = answers.document(PolicyKey(topic, scope), version, None if policies is None else policies.SerializeToString(), disabled=disabled)
    assert PolicyDocument.FromString(raw) == expected
    assert len(raw) == expected.ByteSize()


def test_the_error_of_a_change_in_a_batch_is_its_status() -> None:
    error = invalid()
    (result,) = service_pb2.BatchUpdatePoliciesResponse.FromString(answers.batch_answer([batched(None, error)])).results
    assert result.error == status(error)
