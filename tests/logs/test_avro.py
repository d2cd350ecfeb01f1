"""Events survive encoding and decoding in Avro, and have the form that brokers give their own events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.logs import avro_values, samples
from tests.logs.samples import Unreadable, event_of
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.names import MAX_NAME_LENGTH, PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Document, join, split
from topicpolicies_server.core.policies.events import Action, Event, Stamp, StampKind
from topicpolicies_server.logs.avro import Codec, Dialect
from topicpolicies_server.logs.avro.codec import java_hash
from topicpolicies_server.logs.change_log import LogError

CODEC = Codec()
TOPIC = "persistent://public/orders/topic-0"
LOCAL = PolicyKey(TOPIC, Scope.LOCAL)
GLOBAL = PolicyKey(TOPIC, Scope.GLOBAL)
NOTHING = avro_values.nothing()


def decoded(codec: Codec, message: Any) -> Event:
    return event_of(codec, message.key, message.payload, message.properties)


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("document", samples.documents())
@pytest.mark.parametrize("stamp", [None, *samples.stamps()])
def test_an_encoded_event_is_decoded_unchanged(scope: Scope, document: Document, stamp: Stamp | None) -> None:
    event = Event(PolicyKey(TOPIC, scope), Action.UPDATE, document, stamp)
    assert decoded(CODEC, CODEC.encode(event)) == event


def test_the_longest_names_are_encoded_and_decoded() -> None:
    topic = f"persistent://acme/{'n' * (MAX_NAME_LENGTH - len('persistent://acme//x'))}/x"
    event = Event(PolicyKey(topic, Scope.LOCAL), Action.UPDATE, samples.a_document())
    assert decoded(CODEC, CODEC.encode(event)) == event


@given(avro_values.policies())
def test_a_brokers_event_is_encoded_again_with_the_same_meaning(policies: dict[str, Any]) -> None:
    key = f"__G__{TOPIC}" if policies["isGlobal"] else TOPIC
    event = event_of(CODEC, key, avro_values.written(avro_values.an_event(TOPIC, policies)), {})
    assert event.key == (GLOBAL if policies["isGlobal"] else LOCAL)
    message = CODEC.encode(event)
    assert message.key == key
    assert avro_values.read(message.payload) == avro_values.an_event(TOPIC, avro_values.meant(policies))


@given(avro_values.policies())
def test_the_settings_of_a_brokers_document_survive_a_round_trip_through_its_protobuf_message(policies: dict[str, Any]) -> None:
    document = event_of(CODEC, TOPIC, avro_values.written(avro_values.an_event(TOPIC, dict(policies, isGlobal=False))), {}).document
    assert document is not None
    assert split(join(document)) == document


@settings(max_examples=20)
@given(st.lists(avro_values.policies(), min_size=2, max_size=6), st.booleans())
def test_documents_that_a_codec_handled_before_do_not_affect_later_ones(documents: list[dict[str, Any]], is_global: bool) -> None:
    fresh = [Codec().encode(_event_of(policies, is_global)) for policies in documents]
    used = Codec()
    assert [used.encode(_event_of(policies, is_global)) for policies in documents] == fresh
    for message, policies in zip(fresh, documents, strict=True):
        assert decoded(used, message) == _event_of(policies, is_global)


def _event_of(policies: dict[str, Any], is_global: bool) -> Event:
    policies = dict(policies, isGlobal=is_global)
    key = f"__G__{TOPIC}" if is_global else TOPIC
    return event_of(CODEC, key, avro_values.written(avro_values.an_event(TOPIC, policies)), {})


def test_a_document_without_settings_is_written_as_brokers_initialize_it() -> None:
    policies = avro_values.read(CODEC.encode(Event(LOCAL, Action.UPDATE, {})).payload)["topicPoliciesEvent"]["policies"]
    empty: dict[str, Any] = {"backLogQuotaMap": {}, "subscriptionPolicies": {}, "subscriptionTypesEnabled": []}
    assert policies == {**NOTHING, **empty, "isGlobal": False}


def test_lists_and_maps_that_are_null_or_empty_are_decoded_as_unset() -> None:
    empty: dict[str, Any] = {"backLogQuotaMap": {}, "subscriptionPolicies": {}}
    empty |= {"subscriptionTypesEnabled": [], "replicationClusters": [], "shadowTopics": []}
    for nothing in (empty, dict.fromkeys(empty)):
        payload = avro_values.written(avro_values.an_event(TOPIC, {**NOTHING, **nothing, "isGlobal": False}))
        assert event_of(CODEC, TOPIC, payload, {}).document == {}


def test_a_local_event_and_its_tombstone_are_replicated_to_the_local_cluster_only() -> None:
    codec = Codec(local_cluster="here")
    update = codec.encode(Event(LOCAL, Action.UPDATE, {}))
    tombstone = codec.encode(Event(LOCAL, Action.DELETE, None))
    assert (update.key, update.replication_clusters) == (TOPIC, ("here",))
    assert avro_values.read(update.payload)["replicateTo"] == ["here"]
    assert tombstone == (TOPIC, None, {}, ("here",))


def test_a_global_event_and_its_tombstone_are_replicated_to_all_clusters() -> None:
    update = CODEC.encode(Event(GLOBAL, Action.UPDATE, {}))
    assert (update.key, update.replication_clusters) == (f"__G__{TOPIC}", None)
    event = avro_values.read(update.payload)
    assert event["replicateTo"] is None
    assert event["topicPoliciesEvent"]["policies"]["isGlobal"] is True
    assert CODEC.encode(Event(GLOBAL, Action.DELETE, None)) == (f"__G__{TOPIC}", None, {}, None)


@pytest.mark.parametrize("document", [{}, None])
def test_a_repair_of_a_global_key_is_not_replicated_to_other_clusters(document: Document | None) -> None:
    stamp = Stamp(event_id="repair", kind=StampKind.REPAIR)
    action = Action.UPDATE if document is not None else Action.DELETE
    assert CODEC.encode(Event(GLOBAL, action, document, stamp)).replication_clusters == ("standalone",)
    operation = Stamp(event_id="update", kind=StampKind.UPDATE)
    assert CODEC.encode(Event(GLOBAL, action, document, operation)).replication_clusters is None


def test_a_tombstone_clears_the_scope_that_its_key_names() -> None:
    assert event_of(CODEC, TOPIC, None, {}) == Event(LOCAL, Action.DELETE, None)
    assert event_of(CODEC, f"__G__{TOPIC}", None, {}) == Event(GLOBAL, Action.DELETE, None)


@pytest.mark.parametrize("action", ["INSERT", "UPDATE", "DELETE"])
def test_the_scope_of_an_event_without_a_key_prefix_is_read_from_the_document(action: str) -> None:
    payload = avro_values.written(avro_values.an_event(TOPIC, {**NOTHING, "isGlobal": True}, action=action))
    assert event_of(CODEC, TOPIC, payload, {}) == Event(GLOBAL, Action[action], {})


@pytest.mark.parametrize(("key", "is_global", "expected"), [(TOPIC, True, GLOBAL), (f"__G__{TOPIC}", False, LOCAL)])
def test_the_scope_in_the_document_overrides_the_key_and_replicate_to(key: str, is_global: bool, expected: PolicyKey) -> None:
    event = avro_values.an_event(TOPIC, {**NOTHING, "isGlobal": is_global})
    event["replicateTo"] = ["standalone"] if is_global else None
    codec = Codec()
    for _ in range(2):
        assert event_of(codec, key, avro_values.written(event), {}) == Event(
            expected, Action.UPDATE, {}, clusters=("standalone",) if is_global else ()
        )


def test_equal_documents_are_encoded_as_equal_bytes() -> None:
    document = samples.documents()[4]
    backwards = dict(reversed(list(document.items())))
    assert list(backwards) != list(document)
    assert CODEC.encode(Event(LOCAL, Action.UPDATE, backwards)) == CODEC.encode(Event(LOCAL, Action.UPDATE, document))


def test_a_document_without_a_scope_is_local_whatever_its_key() -> None:
    payload = avro_values.written(avro_values.an_event(TOPIC, NOTHING))
    assert event_of(CODEC, f"__G__{TOPIC}", payload, {}).key == LOCAL


def test_the_name_of_a_partition_is_read_as_its_topic() -> None:
    payload = avro_values.written(avro_values.an_event(f"{TOPIC}-partition-3", {**NOTHING, "isGlobal": False}))
    assert event_of(CODEC, f"{TOPIC}-partition-1", payload, {}).key == LOCAL
    assert event_of(CODEC, f"__G__{TOPIC}-partition-1", None, {}).key == GLOBAL


def test_a_delete_needs_no_document() -> None:
    payload = avro_values.written(avro_values.an_event(TOPIC, None, action="DELETE"))
    assert event_of(CODEC, TOPIC, payload, {}) == Event(LOCAL, Action.DELETE, None)


@pytest.mark.parametrize(
    "changed",
    [
        {"eventType": "TRANSACTION_BUFFER_SNAPSHOT"},
        {"eventType": None},
        {"eventType": "TRANSACTION_BUFFER_SNAPSHOT", "topicPoliciesEvent": None, "actionType": None},
        {"actionType": "NONE"},
    ],
)
def test_events_without_an_effect_are_decoded_as_action_none(changed: dict[str, Any]) -> None:
    payload = avro_values.written({**avro_values.an_event(TOPIC, {**NOTHING, "isGlobal": False}), **changed})
    assert event_of(CODEC, TOPIC, payload, {}) == Event(LOCAL, Action.NONE, None)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"actionType": None}, "no action"),
        ({"topicPoliciesEvent": None}, "no topic"),
        ({"topicPoliciesEvent": avro_values.an_event(TOPIC, None)["topicPoliciesEvent"]}, "no policies"),
        ({"topicPoliciesEvent": avro_values.an_event(f"{TOPIC}x", NOTHING)["topicPoliciesEvent"]}, "not its key's"),
        ({"topicPoliciesEvent": dict.fromkeys(("domain", "namespace", "policies", "tenant", "topic"))}, "incomplete"),
        ({"topicPoliciesEvent": avro_values.an_event("what://a/b/c", NOTHING)["topicPoliciesEvent"]}, "its topic is not valid"),
    ],
)
def test_an_event_that_brokers_fail_to_apply_is_unreadable(changed: dict[str, Any], reason: str) -> None:
    payload = avro_values.written({**avro_values.an_event(TOPIC, {**NOTHING, "isGlobal": False}), **changed})
    with pytest.raises(Unreadable, match=reason):
        event_of(CODEC, TOPIC, payload, {})


def test_without_key_prefixes_a_global_update_is_encoded_and_a_global_delete_is_refused() -> None:
    codec = Codec(dialect=Dialect.SHARED_KEY)
    message = codec.encode(Event(GLOBAL, Action.UPDATE, samples.a_document()))
    assert (message.key, message.replication_clusters) == (TOPIC, None)
    assert decoded(codec, message) == Event(GLOBAL, Action.UPDATE, samples.a_document())
    with pytest.raises(LogError) as refused:
        codec.encode(Event(GLOBAL, Action.DELETE, None))
    assert (refused.value.kind, refused.value.reason) == (Kind.FAILED_PRECONDITION, "NOT_EXPRESSIBLE")
    assert codec.encode(Event(LOCAL, Action.DELETE, None)) == (TOPIC, None, {}, ("standalone",))


@pytest.mark.parametrize("document", [None, {}])
def test_with_an_unknown_dialect_global_events_are_refused(document: Document | None) -> None:
    codec = Codec(dialect=Dialect.UNKNOWN)
    action = Action.UPDATE if document is not None else Action.DELETE
    with pytest.raises(LogError, match=r"4\.0\.6"):
        codec.encode(Event(GLOBAL, action, document))
    assert codec.encode(Event(LOCAL, action, document)) == CODEC.encode(Event(LOCAL, action, document))


@pytest.mark.parametrize(
    ("is_global", "named", "clusters"),
    [
        (False, ["standalone"], None),
        (True, None, None),
        (True, [], None),
        (False, None, ()),
        (False, ["standalone", "eu"], ("standalone", "eu")),
        (True, ["standalone"], ("standalone",)),
    ],
)
def test_an_event_has_its_clusters_where_they_are_not_the_usual_ones(
    is_global: bool, named: list[str] | None, clusters: tuple[str, ...] | None
) -> None:
    policies = {**NOTHING, "isGlobal": is_global}
    event = avro_values.an_event(TOPIC, policies)
    event["replicateTo"] = named
    assert event_of(CODEC, f"__G__{TOPIC}" if is_global else TOPIC, avro_values.written(event), {}).clusters == clusters


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # as printed by JDK 17: text.hashCode() & Integer.MAX_VALUE
        ("", 0),
        ("hello", 99162322),
        ("persistent://public/default/orders", 36069654),
        ("__G__persistent://public/default/orders", 2023423453),
        ("persistent://public/default/Auftr\u00e4ge", 177069091),
        ("persistent://public/default/\u6ce8\u6587", 1655002192),
        ("persistent://public/default/\U0001f680", 1655884948),
        ("polygenelubricants", 0),  # Integer.MIN_VALUE, which has no absolute value
    ],
)
def test_the_hash_equals_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected
