"""Schemas of other versions of Pulsar: nothing in them is dropped silently, and what they can't express is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor
from hypothesis import given

from tests.logs import avro_values, samples
from tests.logs.samples import event_of
from topicpolicies.v1.policies_pb2 import (
    BacklogQuota,
    BacklogQuotaPolicy,
    PersistencePolicies,
    RetentionPolicies,
    SubscriptionType,
    TopicPolicies,
)
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import EXTRA_PREFIX, Document, join, merged, split
from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.logs.avro import PULSAR_4_2_4, Codec, UnsupportedSchema
from topicpolicies_server.logs.change_log import LogError

TOPIC = "persistent://public/orders/topic-0"
KEY = PolicyKey(TOPIC, Scope.LOCAL)


def newer_schema() -> Any:
    """Returns the shipped schema with additions wherever a newer broker might have some."""
    schema = copy.deepcopy(avro_values.SHIPPED)
    leaf = {"name": "newLeaf", "type": "int"}
    named = {"name": "newName", "type": ["null", "string"], "default": None}
    shape: Any = {
        "type": "record",
        "name": "NewShape",
        "namespace": "newer",
        "fields": [{"name": "data", "type": "bytes"}, {"name": "when", "type": "long"}],
    }
    other = {**shape, "name": "OtherShape"}
    avro_values.record_in(schema, "PulsarEvent")["fields"].insert(1, {"name": "newEventField", "type": ["null", "string"], "default": None})
    avro_values.record_in(schema, "TopicPoliciesEvent")["fields"].append({"name": "newCount", "type": "long"})
    for name in ("RetentionPolicies", "DispatchRateImpl", "OffloadPoliciesImpl", "BacklogQuotaImpl"):
        avro_values.record_in(schema, name)["fields"][1:1] = [leaf, named]
    avro_values.record_in(schema, "EntryFilters")["fields"].append({"name": "newRate", "type": ["null", "double"], "default": None})
    policies = avro_values.record_in(schema, "TopicPolicies")["fields"]
    policies.insert(0, {"name": "aNewFlag", "type": ["null", "boolean"], "default": None})
    policies.insert(8, {"name": "newPolicy", "type": ["null", shape, other], "default": None})
    policies.append(
        {"name": "newTable", "type": ["null", {"type": "map", "values": {"type": "array", "items": "double"}}], "default": None}
    )
    policies.append({"name": "newNumber", "type": "int", "default": -1})
    avro_values.record_in(schema, "SchemaCompatibilityStrategy")["symbols"].append("NEW_STRATEGY")
    avro_values.record_in(schema, "SubType")["symbols"].insert(0, "New_Shared")
    avro_values.record_in(schema, "RetentionPolicy")["symbols"].append("new_policy")
    return schema


def older_schema() -> Any:
    """Returns the shipped schema without what an older broker might lack."""
    schema = copy.deepcopy(avro_values.SHIPPED)
    for name, leaves in {
        "PulsarEvent": {"replicateTo"},
        "TopicPolicies": {"maxMessageSize", "shadowTopics", "subscriptionPolicies", "delayedDeliveryMaxDelayInMillis"},
        "BacklogQuotaImpl": {"limitSize"},
        "PersistencePolicies": {"managedLedgerStorageClassName"},
    }.items():
        record = avro_values.record_in(schema, name)
        record["fields"] = [field for field in record["fields"] if field["name"] not in leaves]
    size = next(field for field in avro_values.record_in(schema, "RetentionPolicies")["fields"] if field["name"] == "retentionSizeInMB")
    size["type"] = "int"
    avro_values.record_in(schema, "SubType")["symbols"].remove("Key_Shared")
    return schema


def with_logical_types(schema: Any) -> Any:
    """Returns the schema with a logical type that makes fastavro return a date for a number: another Python type, the same bytes."""
    schema = copy.deepcopy(schema)
    avro_values.record_in(schema, "NewShape")["fields"][1]["type"] = {"type": "long", "logicalType": "timestamp-millis"}
    return schema


NEWER = newer_schema()
OLDER = older_schema()
NEWER_CODEC = Codec(json.dumps(with_logical_types(NEWER)))
OLDER_CODEC = Codec(json.dumps(OLDER))


def test_the_shipped_schema_and_the_protobuf_definition_have_the_same_fields_and_symbols() -> None:
    checked = _covers(TopicPolicies.DESCRIPTOR, avro_values.record_in(avro_values.SHIPPED, "TopicPolicies"), {"isGlobal"})
    assert {*checked} >= {"OffloadPolicies", "DispatchRate", "SubscriptionPolicies", "BacklogQuota", *_ENUMS}
    assert Codec().known is None


_ENUMS = {"BacklogQuotaPolicy", "InactiveTopicDeleteMode", "OffloadedReadPriority", "SchemaCompatibilityStrategy", "SubscriptionType"}
_SECOND_NAMES = {"BacklogQuota": {"limit"}}
"""Older names of fields that Avro has twice."""


def _covers(message: Descriptor, record: Any, beside: set[str] = frozenset()) -> list[str]:  # type: ignore[assignment]
    """Compares the names of all fields and symbols; returns which messages and enums were compared."""
    types = {field["name"]: _present(field["type"]) for field in record["fields"]}
    beside = beside | _SECOND_NAMES.get(message.name, set())
    assert {field.json_name for field in message.fields} == types.keys() - beside, message.name
    checked = [message.name]
    for field in message.fields:
        avro, inner = types[field.json_name], field.message_type
        if isinstance(avro, dict) and avro["type"] in ("array", "map"):
            avro = avro.get("items") or avro.get("values")
        if isinstance(avro, str) and "." in avro:
            avro = avro_values.record_in(avro_values.SHIPPED, avro.rpartition(".")[2])
        if inner is not None and inner.GetOptions().map_entry:
            inner = inner.fields_by_name["value"].message_type
        if inner is not None:
            checked += _covers(inner, avro)
        if field.enum_type is not None:
            checked += _covers_symbols(field.enum_type, avro["symbols"])
    return checked


def _covers_symbols(enum: EnumDescriptor, symbols: list[str]) -> list[str]:
    own = [value.name for value in enum.values if value.number]
    assert len(own) == len(enum.values) - 1 and len(own) == len(set(symbols) - {"UNDEFINED"}), enum.name
    assert all(any(name.endswith("_" + symbol.upper()) for name in own) for symbol in set(symbols) - {"UNDEFINED"}), enum.name
    return [enum.name]


def _present(avro: Any) -> Any:
    return next(branch for branch in avro if branch != "null") if isinstance(avro, list) else avro


def decoded(codec: Codec, schema: Any, policies: dict[str, Any], **others: Any) -> Event:
    event = avro_values.an_event(TOPIC, policies, **others)
    event["topicPoliciesEvent"].setdefault("newCount", 0)
    return event_of(codec, TOPIC, avro_values.written(event, schema), {})


@given(avro_values.policies(NEWER))
def test_a_newer_brokers_document_is_encoded_again_with_the_same_meaning(policies: dict[str, Any]) -> None:
    policies = dict(policies, isGlobal=False)
    message = NEWER_CODEC.encode(decoded(NEWER_CODEC, NEWER, policies, newEventField="dropped: it says nothing of policies"))
    written = avro_values.read(message.payload, NEWER)
    assert (
        written["topicPoliciesEvent"]["policies"]
        == avro_values.read(avro_values.written(_as_event(avro_values.meant(policies)), NEWER), NEWER)["topicPoliciesEvent"]["policies"]
    )
    assert written["newEventField"] is None


def _as_event(policies: dict[str, Any]) -> Any:
    event = avro_values.an_event(TOPIC, policies)
    event["topicPoliciesEvent"]["newCount"] = 0
    return event


def test_a_newer_brokers_fields_and_symbols_survive_our_updates_of_the_same_objects() -> None:
    rate = {"dispatchThrottlingRateInByte": 1, "newLeaf": 7, "newName": "n", "dispatchThrottlingRateInMsg": 2}
    rate |= {"ratePeriodInSecond": 3, "relativeToPublishRate": True}
    policies = {
        **avro_values.nothing(NEWER),
        "isGlobal": False,
        "aNewFlag": True,
        "newNumber": 5,
        "newPolicy": ("newer.OtherShape", {"data": b"\xff\0", "when": 12}),
        "retentionPolicies": {"retentionSizeInMB": 1, "newLeaf": -3, "newName": "kept", "retentionTimeInMinutes": 2},
        "subscriptionPolicies": {"sub": {"dispatchRate": rate}},
        "schemaCompatibilityStrategy": "NEW_STRATEGY",
        "subscriptionTypesEnabled": ["New_Shared", "Shared"],
    }
    event = decoded(NEWER_CODEC, NEWER, policies)
    assert event.document is not None
    document = _with_leaves_changed(event.document)
    written = avro_values.read(NEWER_CODEC.encode(Event(KEY, Action.UPDATE, document)).payload, NEWER)["topicPoliciesEvent"]["policies"]
    assert written == {
        **policies,
        "backLogQuotaMap": {},
        "retentionPolicies": {"retentionSizeInMB": 1, "newLeaf": -3, "newName": "kept", "retentionTimeInMinutes": 60},
        "subscriptionPolicies": {"sub": {"dispatchRate": {**rate, "ratePeriodInSecond": 9}}},
    }


def _with_leaves_changed(document: Document) -> Document:
    """Changes leaves as an update with a mask does: parses the objects, sets the leaves, serializes."""
    policies = join(document)
    policies.retention_policies.retention_time_in_minutes = 60
    policies.subscription_policies["sub"].dispatch_rate.rate_period_in_second = 9
    changed = split(policies)
    assert changed.keys() | {name for name in document if name.startswith(EXTRA_PREFIX)} == document.keys()
    return merged(document, changed, changed)


def test_fields_that_a_newer_schema_adds_are_among_the_known_families_of_an_event() -> None:
    foreign = {"?aNewFlag", "?newPolicy", "?newTable", "?newNumber"}
    assert NEWER_CODEC.known is not None
    assert {family for family in NEWER_CODEC.known if family.startswith(EXTRA_PREFIX)} == foreign
    event = decoded(NEWER_CODEC, NEWER, {**avro_values.nothing(NEWER), "isGlobal": False, "aNewFlag": False})
    assert event == Event(KEY, Action.UPDATE, {"?aNewFlag": b"false"}, None, NEWER_CODEC.known)


def test_a_newer_brokers_field_with_its_null_value_is_decoded_as_absent() -> None:
    retention = {"retentionSizeInMB": 1, "newLeaf": 0, "newName": None, "retentionTimeInMinutes": 2}
    event = decoded(NEWER_CODEC, NEWER, {**avro_values.nothing(NEWER), "isGlobal": False, "retentionPolicies": retention})
    assert event.document == split(TopicPolicies(retention_policies=RetentionPolicies(retention_size_in_mb=1, retention_time_in_minutes=2)))


def test_equal_foreign_values_are_equal_bytes() -> None:
    shape = {"data": b"\xff\0", "when": 12}
    event = decoded(NEWER_CODEC, NEWER, {**avro_values.nothing(NEWER), "isGlobal": False, "newPolicy": ("newer.OtherShape", shape)})
    assert event.document == {"?newPolicy": b'{"-type":"newer.OtherShape","-value":{"data":{"-bytes":"/wA="},"when":12}}'}


def test_a_newer_brokers_fields_are_refused_by_the_codec_of_an_older_schema_instead_of_dropped() -> None:
    leaf = join(_retention_of_a_newer_broker())
    for document, name in (({"?aNewFlag": b"true"}, "?aNewFlag"), (split(leaf), "newLeaf")):
        with pytest.raises(LogError, match=name.replace("?", r"\?")) as refused:
            Codec().encode(Event(KEY, Action.UPDATE, document))
        assert (refused.value.kind, refused.value.reason) == (Kind.FAILED_PRECONDITION, "NOT_EXPRESSIBLE")


def _retention_of_a_newer_broker() -> Document:
    retention = {"retentionSizeInMB": 1, "newLeaf": 1, "newName": None, "retentionTimeInMinutes": 2}
    document = decoded(NEWER_CODEC, NEWER, {**avro_values.nothing(NEWER), "isGlobal": False, "retentionPolicies": retention}).document
    assert document is not None
    return document


@given(avro_values.policies(OLDER))
def test_an_older_brokers_document_is_encoded_again_with_the_same_meaning(policies: dict[str, Any]) -> None:
    policies = dict(policies, isGlobal=False)
    event = avro_values.an_event(TOPIC, policies)
    decoded_event = event_of(OLDER_CODEC, TOPIC, avro_values.written(event, OLDER), {})
    del event["replicateTo"]
    complete = avro_values.meant({**policies, "shadowTopics": None, "subscriptionPolicies": None})
    event["topicPoliciesEvent"]["policies"] = {name: complete[name] for name in policies}
    assert avro_values.read(OLDER_CODEC.encode(decoded_event).payload, OLDER) == event


def test_fields_that_an_older_schema_lacks_are_not_among_the_known_families_of_an_event() -> None:
    ours = {setting.partition("/")[0] for setting in samples.documents()[3]}
    assert set(OLDER_CODEC.known or ()) == ours - {"max_message_size", "shadow_topics", "subscription_policies"}


@pytest.mark.parametrize(
    ("policies", "what"),
    [
        (TopicPolicies(max_message_size=1), "max_message_size"),
        (TopicPolicies(shadow_topics=["persistent://a/b/c"]), "shadow_topics"),
        (TopicPolicies(subscription_types_enabled=[SubscriptionType.SUBSCRIPTION_TYPE_KEY_SHARED]), "no symbol for 4"),
        (TopicPolicies(persistence=PersistencePolicies(bookkeeper_ensemble=1, managed_ledger_storage_class_name="x")), "storage_class"),
        (
            TopicPolicies(retention_policies=RetentionPolicies(retention_size_in_mb=2**40, retention_time_in_minutes=1)),
            "retentionPolicies",
        ),
        (
            TopicPolicies(delayed_delivery_enabled=True, delayed_delivery_max_delay_in_millis=5),
            "delayed_delivery_max_delay_in_millis",
        ),
    ],
)
def test_settings_that_an_older_schema_can_not_express_are_refused_instead_of_dropped(policies: TopicPolicies, what: str) -> None:
    with pytest.raises(LogError, match=what) as refused:
        OLDER_CODEC.encode(Event(KEY, Action.UPDATE, split(policies)))
    assert refused.value.reason == "NOT_EXPRESSIBLE"


def test_a_leaf_of_a_quota_that_a_schema_lacks_is_refused_although_the_size_of_the_quota_has_two_names() -> None:
    schema = copy.deepcopy(avro_values.SHIPPED)
    quota = avro_values.record_in(schema, "BacklogQuotaImpl")
    quota["fields"] = [field for field in quota["fields"] if field["name"] != "limitTime"]
    policies = TopicPolicies(back_log_quota_map={"message_age": BacklogQuota(limit_size=5, limit_time=60)})
    with pytest.raises(LogError, match="no field for limit_time"):
        Codec(json.dumps(schema)).encode(Event(KEY, Action.UPDATE, split(policies)))


def test_all_other_settings_are_encoded_with_an_older_schema() -> None:
    quota = BacklogQuota(limit_size=5, limit_time=-1, policy=BacklogQuotaPolicy.BACKLOG_QUOTA_POLICY_PRODUCER_EXCEPTION)
    policies = TopicPolicies(
        back_log_quota_map={"destination_storage": quota},
        persistence=PersistencePolicies(
            bookkeeper_ensemble=1, bookkeeper_write_quorum=1, bookkeeper_ack_quorum=1, managed_ledger_max_mark_delete_rate=0.5
        ),
        subscription_types_enabled=[SubscriptionType.SUBSCRIPTION_TYPE_SHARED, SubscriptionType.SUBSCRIPTION_TYPE_EXCLUSIVE],
        delayed_delivery_enabled=True,
        delayed_delivery_tick_time_millis=5,
    )
    event = Event(KEY, Action.UPDATE, split(policies), None, OLDER_CODEC.known)
    message = OLDER_CODEC.encode(event)
    assert event_of(OLDER_CODEC, message.key, message.payload, {}) == event


def test_fields_whose_type_has_changed_are_kept_as_foreign_fields() -> None:
    schema = copy.deepcopy(avro_values.SHIPPED)
    fields = {field["name"]: field for field in avro_values.record_in(schema, "TopicPolicies")["fields"]}
    fields["maxMessageSize"]["type"] = ["null", "string"]
    codec = Codec(json.dumps(schema))
    payload = avro_values.written(
        avro_values.an_event(TOPIC, {**avro_values.nothing(), "isGlobal": False, "maxMessageSize": "1 MB"}), schema
    )
    event = event_of(codec, TOPIC, payload, {})
    assert event.document == {"?maxMessageSize": b'"1 MB"'}
    assert event.known is not None
    assert "max_message_size" not in event.known
    assert codec.encode(event).payload == codec.encode(Event(KEY, Action.UPDATE, {"?maxMessageSize": b'"1 MB"'})).payload


@pytest.mark.parametrize(
    "definition",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        '"string"',
        '{"type":"record","name":"R","fields":[]}',
        '{"type":"record","name":"R","fields":7}',
        json.dumps(avro_values.record_in(avro_values.SHIPPED, "TopicPolicies")),
    ],
)
def test_a_definition_that_is_not_a_schema_of_policy_events_is_refused(definition: str) -> None:
    with pytest.raises(UnsupportedSchema):
        Codec(definition)


@pytest.mark.parametrize("name", ["isGlobal", "policies", "tenant", "actionType", "topicPoliciesEvent", "eventType"])
def test_a_schema_that_lacks_a_required_field_is_refused(name: str) -> None:
    schema = copy.deepcopy(avro_values.SHIPPED)
    for record in ("PulsarEvent", "TopicPoliciesEvent", "TopicPolicies"):
        fields = avro_values.record_in(schema, record)["fields"]
        fields[:] = [field for field in fields if field["name"] != name]
        if name == "policies" and record == "TopicPoliciesEvent":
            break
        if name == "topicPoliciesEvent":
            break
    with pytest.raises(UnsupportedSchema):
        Codec(json.dumps(schema))


def test_the_shipped_schema_is_byte_for_byte_what_brokers_register() -> None:
    assert PULSAR_4_2_4.startswith('{"type":"record","name":"PulsarEvent","namespace":"org.apache.pulsar.common.events"')
    assert Codec().definition == PULSAR_4_2_4


def test_a_default_other_than_null_is_read() -> None:
    schema = copy.deepcopy(avro_values.SHIPPED)
    fields = avro_values.record_in(schema, "TopicPolicies")["fields"]
    next(field for field in fields if field["name"] == "maxProducerPerTopic").update(type="int", default=7)
    codec = Codec(json.dumps(schema))
    message = codec.encode(Event(KEY, Action.UPDATE, {}))
    assert event_of(codec, message.key, message.payload, {}).document == split(TopicPolicies(max_producer_per_topic=7))
