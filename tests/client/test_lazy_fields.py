"""Values that read their fields from a message lazily equal values of the same class that were made from the fields."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import topicpolicies as tp
from topicpolicies.documents import Document
from topicpolicies.events import Changed
from topicpolicies.origins import Origin
from topicpolicies.v1 import policies_pb2, service_pb2

TEXTS = st.text(max_size=5)
DOCUMENTS = st.builds(
    lambda topic, scope, version, limit, disabled: policies_pb2.PolicyDocument(
        topic=topic,
        scope=scope,
        version=version,
        policies=None if limit is None else tp.TopicPolicies(max_producer_per_topic=limit),
        disabled=disabled,
    ),
    TEXTS,
    st.sampled_from([1, 2]),
    TEXTS,
    st.none() | st.integers(0, 9),
    st.booleans(),
)


def made(message: policies_pb2.PolicyDocument) -> Document:
    """Returns the same document, made from its fields."""
    policies = message.policies if message.HasField("policies") else None
    return Document(message.topic, tp.Scope(message.scope), policies, message.version, message.disabled)


def asked_in(order: list[str], value: object) -> None:
    for name in order:
        getattr(value, name)


@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_a_document_equals_its_message_in_whatever_order_its_fields_are_read(
    message: policies_pb2.PolicyDocument, chance: random.Random
) -> None:
    read, expected = Document.of(message), made(message)
    names = [*(field.name for field in dataclasses.fields(Document)), "exists"]
    asked_in(chance.sample(names, chance.randint(0, len(names))), read)
    assert read == expected and repr(read) == repr(expected) and read.exists == expected.exists
    assert pickle.loads(pickle.dumps(Document.of(message))) == expected  # noqa: S301 - pickled by this test
    assert copy.copy(Document.of(message)) == expected
    assert dataclasses.replace(Document.of(message), version="other") == dataclasses.replace(expected, version="other")
    assert copy.copy(Document.of(message)).exists == expected.exists


@given(DOCUMENTS, st.none() | DOCUMENTS, TEXTS, st.integers(0, 3), TEXTS, st.none() | TEXTS, st.booleans())
def test_a_change_equals_its_message(
    document: policies_pb2.PolicyDocument,
    previous: policies_pb2.PolicyDocument | None,
    before: str,
    partition: int,
    position: str,
    actor: str | None,
    snapshot: bool,
) -> None:
    message = service_pb2.PolicyChange(
        document=document, previous=previous, previous_version=before, partition=partition, position=position
    )
    if actor is not None:
        message.origin.actor = actor
    read = Changed.of("acme/orders", message, snapshot)
    origin = None if actor is None else Origin.of(message.origin)
    earlier = None if previous is None else made(previous)
    expected = Changed("acme/orders", made(document), before, earlier, partition, position, origin, snapshot)
    assert read == expected and repr(read) == repr(expected)
    assert copy.copy(Changed.of("acme/orders", message, snapshot)) == expected


def test_fields_are_read_once_and_can_not_be_set() -> None:
    message = policies_pb2.PolicyDocument(topic="t", scope=policies_pb2.SCOPE_LOCAL, policies=tp.TopicPolicies())
    document = Document.of(message)
    assert document.policies is document.policies
    with pytest.raises(dataclasses.FrozenInstanceError):
        document.version = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="'Document' object has no attribute 'polices'"):
        document.polices  # type: ignore[attr-defined]  # noqa: B018


def test_scopes_with_the_same_number_are_the_same_key() -> None:
    assert {("t", tp.Scope.LOCAL): 1}[("t", tp.Scope(1))] == 1
    assert len({tp.Scope.LOCAL, tp.Scope.GLOBAL, tp.Scope(2)}) == 2


@pytest.mark.parametrize("exists", [True, False])
def test_an_absent_document_does_not_keep_a_reference_to_its_message(exists: bool) -> None:
    sent = policies_pb2.PolicyDocument(topic="a", scope=policies_pb2.SCOPE_LOCAL, version="1", disabled=not exists)
    answer = service_pb2.GetPolicyResponse(documents=[sent])
    if exists:
        answer.documents[0].policies.max_producer_per_topic = 1
    message = answer.documents[0]
    before = sys.getrefcount(message)
    document = Document.of(message)
    assert sys.getrefcount(message) - before == exists
    assert document == made(message)
