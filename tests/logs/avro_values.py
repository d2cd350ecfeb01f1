"""Hypothesis strategies for the values of any Avro schema, and how brokers interpret the values of a policy event.

The strategies are independent of the codec: they read the schema's JSON themselves.
"""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
from hypothesis import strategies as st

from topicpolicies_server.logs.avro import PULSAR_4_2_4

Json = Any
SHIPPED: Json = json.loads(PULSAR_4_2_4)

TEXTS = st.text(max_size=12)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=8),
    "string": TEXTS,
}


def record_in(schema: Json, name: str) -> Json:
    """Returns the definition of a record or an enum inside a schema, by its simple name, so that a test can inspect or change it."""
    found = [each for each in _definitions(schema) if each["name"] == name]
    assert len(found) == 1, name
    return found[0]


def values(avro: Json, schema: Json) -> st.SearchStrategy[Any]:
    """Returns a strategy for the values of a type. Nullable values are null more often than not, as in real documents."""
    if isinstance(avro, list):
        several = sum(isinstance(branch, dict) and branch["type"] == "record" for branch in avro) > 1
        return st.one_of(*(_named(branch, schema) if several else values(branch, schema) for branch in avro))
    if isinstance(avro, str):
        return PRIMITIVES[avro] if avro in PRIMITIVES else values(record_in(schema, avro.rpartition(".")[2]), schema)
    match avro["type"]:
        case "record":
            return st.fixed_dictionaries({field["name"]: st.deferred(_later(field["type"], schema)) for field in avro["fields"]})
        case "enum":
            return st.sampled_from(avro["symbols"])
        case "array":
            return st.lists(values(avro["items"], schema), max_size=3)
        case "map":
            return st.dictionaries(TEXTS, values(avro["values"], schema), max_size=3)
        case inner:
            return values(inner, schema)


def policies(schema: Json = SHIPPED) -> st.SearchStrategy[dict[str, Any]]:
    """Returns a strategy for ``TopicPolicies`` records of a schema: a few fields have values, the rest are null."""
    fields = {field["name"]: field["type"] for field in record_in(schema, "TopicPolicies")["fields"]}
    present = {name: values(avro, schema) for name, avro in fields.items()}
    return st.fixed_dictionaries({}, optional=present).map(lambda chosen: {**nothing(schema), **chosen})


def nothing(schema: Json = SHIPPED) -> dict[str, Any]:
    """Returns a ``TopicPolicies`` record without settings: each field is null, or has its default if it can't be null."""
    return {field["name"]: field.get("default") for field in record_in(schema, "TopicPolicies")["fields"]}


def an_event(topic: str, document: dict[str, Any] | None, *, action: str | None = "UPDATE", **others: Any) -> dict[str, Any]:
    """Returns a ``PulsarEvent`` as a broker of the cluster "standalone" writes it."""
    domain, _, rest = topic.partition("://")
    tenant, namespace, local = rest.split("/", 2)
    names = {"domain": domain, "tenant": tenant, "namespace": namespace, "topic": local}
    is_global = document is not None and document["isGlobal"]
    return {
        "actionType": action,
        "eventType": "TOPIC_POLICY",
        "replicateTo": None if is_global else ["standalone"],
        "topicPoliciesEvent": {**names, "policies": document},
        **others,
    }


def written(event: Json, schema: Json = SHIPPED) -> bytes:
    """Encodes an event with fastavro alone."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), event)
    return out.getvalue()


def read(payload: bytes | None, schema: Json = SHIPPED) -> Json:
    """Decodes a payload with fastavro alone."""
    assert payload is not None
    return fastavro.schemaless_reader(
        io.BytesIO(payload), fastavro.parse_schema(schema), None, return_record_name=True, return_record_name_override=True
    )


def meant(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a document as a broker would write it again after reading it: documents of the same meaning become equal."""
    result = dict(document, isGlobal=bool(document["isGlobal"]))
    for name in ("backLogQuotaMap", "subscriptionPolicies"):
        result[name] = result[name] or {}
    result["subscriptionTypesEnabled"] = result["subscriptionTypesEnabled"] or []
    for name in ("replicationClusters", "shadowTopics"):
        result[name] = result[name] or None
    if result["schemaCompatibilityStrategy"] == "UNDEFINED":
        result["schemaCompatibilityStrategy"] = None
    result["backLogQuotaMap"] = {name: _quota(quota) for name, quota in result["backLogQuotaMap"].items()}
    if result["offloadPolicies"] is not None:
        extra = result["offloadPolicies"]["managedLedgerExtraConfigurations"]
        result["offloadPolicies"] = {**result["offloadPolicies"], "managedLedgerExtraConfigurations": extra or {}}
    return result


def _quota(quota: dict[str, Any]) -> dict[str, Any]:
    size = quota["limit"] if quota.get("limitSize") is None else quota["limitSize"]
    return {**quota, "limit": size, **({"limitSize": size} if "limitSize" in quota else {})}


def _named(avro: Json, schema: Json) -> st.SearchStrategy[Any]:
    """Tags a value with the name of its record, as fastavro requires in a union of several records."""
    if avro == "null":
        return st.none()
    return values(avro, schema).map(lambda value: (f"{avro['namespace']}.{avro['name']}", value))


def _later(avro: Json, schema: Json) -> Any:
    return lambda: values(avro, schema)


def _definitions(avro: Json) -> list[Json]:
    if isinstance(avro, list):
        return [each for branch in avro for each in _definitions(branch)]
    if not isinstance(avro, dict):
        return []
    inside = [each for field in avro.get("fields", ()) for each in _definitions(field["type"])]
    inside += [each for part in ("items", "values", "type") for each in _definitions(avro.get(part))]
    return [avro, *inside] if "name" in avro else inside
