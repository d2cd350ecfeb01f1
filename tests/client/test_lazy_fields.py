"""What is read out of a message when it is asked for is what was in it, and is like every other value of its class."""

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
    """The same document, made of its fields."""
    policies = message.policies if message.HasField("policies") else None
    return Document(message.topic, tp.Scope(message.scope), policies, message.version, message.disabled)


def asked_in(order: list[str], value: object) -> None:
    for name in order:
        getattr(value, name)


@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_a_document_is_what_its_message_says_in_whatever_order_it_is_asked(
    message: policies_pb2.PolicyDocument, chance: random.Random
) -> None:
    read, expected = Document.of(message), made(message)
    names = [*(field.name for field in dataclasses.fields(Document)), "exists"]
    asked_in(chance.sample(names, chance.randint(0, len(names))), read)
    assert read == expected and repr(read) == repr(expected) and read.exists == expected.exists
    assert pickle.loads(pickle.dumps(Document.of(message))) == expected  # noqa: S301 (our own)
    assert copy.copy(Document.of(message)) == expected
    assert dataclasses.replace(Document.of(message), version="other") == dataclasses.replace(expected, version="other")
    assert copy.copy(Document.of(message)).exists == expected.exists


@given(DOCUMENTS, st.none() | DOCUMENTS, TEXTS, st.integers(0, 3), TEXTS, st.none() | TEXTS, st.booleans())
def test_a_change_is_what_its_message_says(
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
    told = None if previous is None else made(previous)
    expected = Changed("acme/orders", made(document), before, told, partition, position, origin, snapshot)
    assert read == expected and repr(read) == repr(expected)
    assert copy.copy(Changed.of("acme/orders", message, snapshot)) == expected


def test_what_was_read_is_not_read_again_and_nothing_can_be_set() -> None:
    message = policies_pb2.PolicyDocument(topic="t", scope=policies_pb2.SCOPE_LOCAL, policies=tp.TopicPolicies())
    document = Document.of(message)
    assert document.policies is document.policies
    with pytest.raises(dataclasses.FrozenInstanceError):
        document.version = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="'Document' object has no attribute 'polices'"):
        document.polices  # type: ignore[attr-defined]  # noqa: B018


def test_scopes_are_the_same_keys_as_before() -> None:
    assert {("t", tp.Scope.LOCAL): 1}[("t", tp.Scope(1))] == 1
    assert len({tp.Scope.LOCAL, tp.Scope.GLOBAL, tp.Scope(2)}) == 2


@pytest.mark.parametrize("there", [True, False])
def test_an_absent_document_does_not_keep_the_message_that_told_of_it_and_all_that_came_with_that(there: bool) -> None:
    told = policies_pb2.PolicyDocument(topic="a", scope=policies_pb2.SCOPE_LOCAL, version="1", disabled=not there)
    answer = service_pb2.GetPolicyResponse(documents=[told])
    if there:
        answer.documents[0].policies.max_producer_per_topic = 1
    message = answer.documents[0]
    before = sys.getrefcount(message)
    document = Document.of(message)
    assert sys.getrefcount(message) - before == there
    assert document == made(message)
