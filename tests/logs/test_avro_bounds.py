"""The codec either can read and write with a registered schema or refuses it, with no other outcome, and quickly."""

from __future__ import annotations

import copy
import json
import re
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.logs import avro_values
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.logs.avro import Codec, UnsupportedSchema

TOPIC = "persistent://public/orders/topic-0"
EMPTY = Event(PolicyKey(TOPIC, Scope.LOCAL), Action.UPDATE, {})
NAMES = (
    "A",
    "B",
    "Sparse",
    "Piece",
    "Entry",
    "x.A",
    "org.apache.pulsar.common.policies.data.RetentionPolicies",
    "int",
    "null",
    "error",
    "",
)
RECORDS = ("PulsarEvent", "TopicPoliciesEvent", "TopicPolicies", "RetentionPolicies", "BacklogQuotaImpl")


def with_field(field: dict[str, Any], record: str = "TopicPolicies") -> Any:
    """Returns the shipped schema with an additional field, or with this field in place of the one of its name."""
    schema = copy.deepcopy(avro_values.SHIPPED)
    fields = avro_values.record_in(schema, record)["fields"]
    at = next((at for at, each in enumerate(fields) if each["name"] == field["name"]), len(fields))
    fields[at : at + 1] = [field]
    return schema


def a_record(name: str, *types: Any) -> dict[str, Any]:
    """Returns a record with fields of these types."""
    return {"type": "record", "name": name, "fields": [{"name": f"f{at}", "type": each} for at, each in enumerate(types)]}


def an_array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def in_a_chain(length: int, *, of: int) -> list[Any]:
    """Returns ``length`` types, each of which names the previous one ``of`` times: a short text that describes a large value."""
    return [a_record("T0", "long"), *(a_record(f"T{at}", *[f"T{at - 1}"] * of) for at in range(1, length))]


LINKED = a_record("Linked", ["null", "Linked"])


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(["null", LINKED], id="a record that contains itself"),
        pytest.param(a_record("Linked", "Linked"), id="a record that always contains itself"),
        pytest.param(a_record("Linked", {"type": "map", "values": an_array("Linked")}), id="a record that holds many of itself"),
        pytest.param(a_record("One", ["null", a_record("Two", ["null", "One"])]), id="two records that hold each other"),
        pytest.param(an_array("null"), id="an array of nulls"),
        pytest.param(["null", an_array(a_record("Nothing"))], id="an array of records without fields"),
        pytest.param(
            an_array(a_record("Nothing", "null", {"type": "fixed", "name": "F", "size": 0})), id="an array of nothing in all forms"
        ),
        pytest.param(an_array({"type": "fixed", "name": "F", "size": 0}), id="an array of no bytes"),
        pytest.param(a_record("All", *in_a_chain(200, of=1)), id="deep by names"),
        pytest.param(a_record("All", *in_a_chain(40, of=2)), id="large by names"),
        pytest.param({"type": "fixed", "name": "F", "size": 1 << 40}, id="larger than the memory"),
    ],
)
def test_a_type_that_expands_few_bytes_into_a_large_value_is_refused_before_reading(odd: Any) -> None:
    began = time.process_time()
    for record in ("TopicPolicies", "RetentionPolicies", "PulsarEvent"):
        with pytest.raises(UnsupportedSchema, match="not a schema to read with"):
            Codec(json.dumps(with_field({"name": "odd", "type": odd}, record)))
    assert time.process_time() - began < 5.0


@pytest.mark.parametrize(
    "field",
    [
        {"name": "n", "type": "long", "default": 1 << 70},
        {"name": "n", "type": {"type": "enum", "name": "E", "symbols": ["A"]}, "default": "B"},
        {"name": "n", "type": {"type": "enum", "name": "E", "symbols": []}},
        {"name": "n", "type": "error"},
        {"name": "isGlobal", "type": "string"},
        {"name": "isGlobal", "type": ["null", {"type": "enum", "name": "E", "symbols": ["A"]}]},
        {"name": "actionType", "type": ["null", "string", an_array("string")]},
        {"name": "policies", "type": ["null", LINKED]},
    ],
)
def test_a_field_that_can_not_be_written_is_refused(field: dict[str, Any]) -> None:
    record = {"actionType": "PulsarEvent", "policies": "TopicPoliciesEvent"}.get(field["name"], "TopicPolicies")
    with pytest.raises(UnsupportedSchema):
        Codec(json.dumps(with_field(field, record)))


def test_a_field_that_is_defined_twice_is_refused() -> None:
    schema = copy.deepcopy(avro_values.SHIPPED)
    avro_values.record_in(schema, "TopicPolicies")["fields"].append({"name": "isGlobal", "type": ["null", "boolean"]})
    with pytest.raises(UnsupportedSchema, match="TopicPolicies has a field twice"):
        Codec(json.dumps(schema))


@pytest.mark.parametrize("name", ["Sparse", "Piece", "Entry"])
def test_a_type_may_have_any_name(name: str) -> None:
    odd = {**a_record(name, "long"), "namespace": ""}
    for record in ("TopicPolicies", "RetentionPolicies", "SubscriptionPolicies"):
        codec = Codec(json.dumps(with_field({"name": "odd", "type": ["null", an_array(odd)], "default": None}, record)))
        assert codec.read(TOPIC, codec.encode(EMPTY).payload, {}) == (Event(EMPTY.key, Action.UPDATE, {}, None, codec.known), "")


def test_records_that_are_named_repeatedly_without_recursion_are_read() -> None:
    odd = a_record("All", *in_a_chain(5, of=2), an_array("T4"), {"type": "map", "values": ["null", "T3"]})
    codec = Codec(json.dumps(with_field({"name": "odd", "type": ["null", odd], "default": None})))
    assert codec.read(TOPIC, codec.encode(EMPTY).payload, {})[1] == ""


def test_the_description_of_damage_contains_no_memory_address() -> None:
    problems = set()
    codec = Codec()
    payload = codec.encode(EMPTY).payload or b""
    for at in range(len(payload)):
        for wrong in (payload[:at], payload[:at] + b"\xff" * 9 + b"\x7f", payload[:at] + b"\x7f" + payload[at + 1 :]):
            problems.add(codec.read(TOPIC, wrong, {})[1])
    assert len(problems) > 5
    assert not [problem for problem in problems if re.search("0x[0-9a-f]{6}", problem)]


PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string", *NAMES])
SMALL = st.sampled_from([0, 1, 2, 3])


def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.lists(
        st.fixed_dictionaries({"name": st.sampled_from(["a", "b", "c", "isGlobal"]), "type": inner}, optional={"default": defaults()}),
        max_size=3,
    )
    name, space = st.sampled_from(NAMES), {"namespace": st.sampled_from(["", "x"])}
    return st.one_of(
        st.lists(inner, max_size=3),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"type": st.just("map"), "values": inner}),
        st.fixed_dictionaries({"type": st.sampled_from(["record", "error"]), "name": name, "fields": fields}, optional=space),
        st.fixed_dictionaries(
            {"type": st.just("enum"), "name": name, "symbols": st.lists(st.sampled_from("ABC"), max_size=2)}, optional=space
        ),
        st.fixed_dictionaries(
            {"type": st.just("fixed"), "name": name, "size": st.sampled_from([0, 1, 16, 1 << 40, -1, "x"])}, optional=space
        ),
        st.fixed_dictionaries({"type": inner}, optional={"logicalType": st.just("decimal"), "avro.java.string": st.just("String")}),
    )


def defaults() -> st.SearchStrategy[Any]:
    return st.sampled_from([None, True, 0, -1, 1 << 40, 1 << 70, 0.1, float("nan"), "", "A", "\ud800", "\xff", [], {}, [None], {"a": 1}])


ODD = st.recursive(PRIMITIVES, around, max_leaves=6)
FIELD_NAMES = st.sampled_from(
    (
        *("odd", "isGlobal", "actionType", "eventType", "replicateTo", "topicPoliciesEvent", "policies", "tenant", "retentionPolicies"),
        *("replicationClusters", "subscriptionPolicies", "subscriptionTypesEnabled", "maxProducerPerTopic", "backLogQuotaMap"),
    )
)


@given(
    st.fixed_dictionaries({"name": FIELD_NAMES, "type": ODD}, optional={"default": defaults()}),
    st.sampled_from(RECORDS),
    st.binary(max_size=30),
)
@example({"name": "odd", "type": ["null", LINKED]}, "TopicPolicies", b"")
@example({"name": "odd", "type": {"type": "enum", "name": "E", "symbols": []}}, "PulsarEvent", b"")
@example({"name": "odd", "type": {"type": "long"}, "default": 1 << 70}, "RetentionPolicies", b"")
def test_a_schema_is_either_usable_for_reading_and_writing_or_refused(field: dict[str, Any], record: str, data: bytes) -> None:
    try:
        codec = Codec(json.dumps(with_field(field, record)))
    except UnsupportedSchema:
        return
    payload = codec.encode(EMPTY).payload or b""
    event, problem = codec.read(TOPIC, payload, {})
    assert event is not None, problem
    codec.read(TOPIC, codec.nothing(), {})
    for at in (0, len(payload) // 2, len(payload) - 1):
        codec.read(TOPIC, payload[:at] + data + payload[at:], {})
        codec.read(TOPIC, payload[:at] + data, {})
