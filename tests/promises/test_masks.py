"""What an update means, as docs/masks.md defines it: its sections, and the examples that all clients run, over gRPC."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .api import GLOBAL, LOCAL, Api, Refused
from .documents import FIELDS, REDACTED, SECRETS, only, shown, whole, without

VECTORS = Path(__file__).parents[2] / "clients" / "vectors"
EXAMPLES = json.loads((VECTORS / "apply.json").read_text())
PATHS = [
    each
    for each in json.loads((VECTORS / "masks.json").read_text())["paths"]
    if each["segments"][:1] == ["subscription_policies"] and all(each["segments"])
]


def document(example: dict[str, Any] | None) -> TopicPolicies | None:
    return None if example is None else ParseDict(example, TopicPolicies())


async def created(api: Api, topic: str, policies: TopicPolicies | None, **options: Any) -> None:
    """Creates a document; an empty one is made by a change that is cleared again."""
    if policies is None:
        return
    if not policies.ListFields():
        await api.update(topic, {"max_producer_per_topic": 1}, **options)
    await api.update(topic, policies, mask=["*"], **options)


# The examples that clients run


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each["name"])
async def test_example(api: Api, topic: str, example: dict[str, Any]) -> None:
    involved = json.dumps([example["policies"], example["document"]])
    scope = GLOBAL if "replicationClusters" in involved else LOCAL  # no rule of the cluster is part of an example
    before = document(example["document"])
    await created(api, topic, before, scope=scope)
    lists = {path: name.removeprefix("LIST_OPERATION_") for path, name in example.get("listOperations", {}).items()}
    options: dict[str, Any] = {"mask": example.get("mask", ()), "scope": scope, "lists": lists}
    if "reason" in example:
        with pytest.raises(Refused) as refused:
            await api.update(topic, document(example["policies"]), **options)
        assert refused.value.code == "INVALID_ARGUMENT"
        assert example["reason"] in {each.reason for each in refused.value.violations}
    else:
        answer = await api.update(topic, document(example["policies"]), **options)
        assert answer.document is not None and answer.document.policies == document(example["after"])
    after = before if "reason" in example else document(example["after"])
    assert (await api.get(topic, scope)).policies == after


# Every field


def test_the_two_documents_have_every_field_and_differ_in_each() -> None:
    for name in FIELDS:
        assert only(whole(1), name).ListFields() and only(whole(1), name) != only(whole(2), name), name


@pytest.mark.parametrize("name", FIELDS)
async def test_a_field_is_set_replaced_and_cleared_and_no_other_changes(api: Api, topic: str, name: str) -> None:
    first, second = whole(1), whole(2)
    await api.update(topic, without(first, name), mask=["*"])
    assert (await api.update(topic, first, mask=[name])).outcome == "APPLIED"
    assert (await api.get(topic)).policies == shown(first)
    await api.update(topic, second, mask=[name])
    mixed = without(first, name)
    mixed.MergeFrom(only(second, name))
    assert (await api.get(topic)).policies == shown(mixed), "replaced, not merged"
    await api.update(topic, mask=[name])
    assert (await api.get(topic)).policies == shown(without(first, name))


@pytest.mark.parametrize("name", FIELDS)
async def test_without_a_mask_a_field_that_is_set_changes_and_nothing_is_cleared(api: Api, topic: str, name: str) -> None:
    await api.update(topic, whole(1), mask=["*"])
    await api.update(topic, only(whole(2), name))
    found = (await api.get(topic)).policies
    assert found is not None
    assert without(found, name) == shown(without(whole(1), name))
    expected = only(shown(whole(2)), name)
    if name == "subscription_policies":  # entry by entry
        assert set(found.subscription_policies) == {"sub-1", "sub-2", "both"}
        assert found.subscription_policies["both"] == expected.subscription_policies["both"]
    else:
        assert only(found, name) == expected


PARTS: dict[str, Callable[[TopicPolicies], Any]] = {
    "offload_policies.managed_ledger_extra_configurations.`region.hint`": (
        lambda document: document.offload_policies.managed_ledger_extra_configurations.pop("region.hint")
    ),
    "offload_policies.managed_ledger_offload_region": lambda each: each.offload_policies.ClearField("managed_ledger_offload_region"),
    "offload_policies.s3_managed_ledger_offload_credential_secret": (
        lambda document: document.offload_policies.ClearField("s3_managed_ledger_offload_credential_secret")
    ),
    "persistence.managed_ledger_storage_class_name": lambda each: each.persistence.ClearField("managed_ledger_storage_class_name"),
    "subscription_policies.both.dispatch_rate": lambda document: document.subscription_policies.pop("both"),
    "back_log_quota_map.destination_storage": lambda document: document.back_log_quota_map.pop("destination_storage"),
}


@pytest.mark.parametrize("path", PARTS)
async def test_a_part_is_cleared_and_set_again_and_nothing_beside_it_changes(api: Api, topic: str, path: str) -> None:
    expected = whole(1)
    PARTS[path](expected)
    await api.update(topic, whole(1), mask=["*"])
    await api.update(topic, mask=[path])
    assert (await api.get(topic)).policies == shown(expected)
    await api.update(topic, whole(1), mask=[path])
    assert (await api.get(topic)).policies == shown(whole(1))


async def test_reading_and_writing_back_with_the_same_mask_changes_nothing(api: Api, topic: str) -> None:
    await api.update(topic, whole(1), mask=["*"])
    read = await api.get(topic)
    for mask in (["*"], FIELDS, [], ["offload_policies.s3_managed_ledger_offload_credential_secret", "subscription_policies.both"]):
        answer = await api.update(topic, read.policies, mask=mask)
        assert (answer.outcome, answer.version) == ("UNCHANGED", read.version), mask
    assert await api.get(topic) == read


# Paths


WRONG = {
    "no_such": "UNKNOWN_PATH",
    "retention_policies.neither": "UNKNOWN_PATH",
    "maxProducerPerTopic": "UNKNOWN_PATH",
    "replication_clusters.0": "INDEX_INTO_LIST",
    "replication_clusters[0]": "UNKNOWN_PATH",
    "max_producer_per_topic.x": "THROUGH_SCALAR",
    "retention_policies..x": "EMPTY_SEGMENT",
    "": "EMPTY_SEGMENT",
    "subscription_policies.`open": "MALFORMED_PATH",
    "back_log_quota_map.elsewhere": "INVALID_MAP_KEY",
    "*": "WILDCARD_NOT_ALONE",
}


async def test_every_wrong_path_is_named_at_once_and_nothing_is_applied(api: Api, topic: str) -> None:
    before = await api.update(topic, {"max_producer_per_topic": 7})
    with pytest.raises(Refused) as refused:
        await api.update(topic, {"max_producer_per_topic": 1}, mask=["max_producer_per_topic", *WRONG])
    assert refused.value.code == "INVALID_ARGUMENT"
    found = {each.field: each.reason for each in refused.value.violations}
    assert found == {f"update_mask.paths[{at}]": reason for at, reason in enumerate(WRONG.values(), start=1)}
    assert await api.get(topic) == before.document


async def test_the_error_for_a_path_in_camel_case_gives_the_right_name(api: Api, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        await api.update(topic, {"max_producer_per_topic": 1}, mask=["maxProducerPerTopic"])
    assert "max_producer_per_topic" in refused.value.violations[0].sentence


@pytest.mark.parametrize("example", PATHS, ids=lambda each: each["text"])
async def test_a_path_in_backticks_names_one_entry_of_a_map(api: Api, topic: str, example: dict[str, Any]) -> None:
    key = example["segments"][1]
    others = only(whole(1), "subscription_policies")
    sent = TopicPolicies()
    sent.subscription_policies[key].dispatch_rate.CopyFrom(whole(2).dispatch_rate)
    await api.update(topic, others)
    await api.update(topic, sent, mask=[example["text"]])
    found = (await api.get(topic)).policies
    assert found is not None and found.subscription_policies[key] == sent.subscription_policies[key]
    assert set(found.subscription_policies) == {*others.subscription_policies, key}
    await api.update(topic, mask=[example["text"]])
    assert (await api.get(topic)).policies == others


async def test_neither_order_nor_repetition_of_paths_has_a_meaning(api: Api, topic: str) -> None:
    await api.update(topic, whole(1), mask=["*"])
    paths = ["retention_policies", "max_producer_per_topic", "dispatch_rate.rate_period_in_second"]
    found = []
    for mask in (paths, paths[::-1], [*paths, *paths, "retention_policies.retention_size_in_mb"]):
        found.append((await api.update(topic, whole(2), mask=mask, dry_run=True)).document)
    assert found[0] is not None and found[0] == found[1] == found[2]


# List operations


async def test_two_callers_who_add_one_cluster_each_both_succeed(api: Api, topic: str) -> None:
    names = [f"cluster-{number}" for number in range(20)]
    options: dict[str, Any] = {"mask": ["replication_clusters"], "scope": GLOBAL, "lists": {"replication_clusters": "UNION"}}
    await asyncio.gather(*(api.update(topic, {"replication_clusters": [name]}, **options) for name in names))
    found = (await api.get(topic, GLOBAL)).policies
    assert found is not None and sorted(found.replication_clusters) == sorted(names)
    options["lists"] = {"replication_clusters": "SUBTRACT"}
    await asyncio.gather(*(api.update(topic, {"replication_clusters": [name]}, **options) for name in names[1:]))
    found = (await api.get(topic, GLOBAL)).policies
    assert found is not None and found.replication_clusters == names[:1]


# Secrets


async def test_a_redacted_value_keeps_the_stored_secret_and_the_rest_changes(api: Api, topic: str) -> None:
    first = await api.update(topic, only(whole(1), "offload_policies"))
    assert first.document is not None and first.document.policies is not None
    sent = TopicPolicies.FromString(first.document.policies.SerializeToString())
    assert all(getattr(sent.offload_policies, name) == REDACTED for name in SECRETS)
    sent.offload_policies.managed_ledger_offload_bucket = "another"
    second = await api.update(topic, sent, mask=["offload_policies"])
    assert second.outcome == "APPLIED"
    stored = only(whole(1), "offload_policies")
    stored.offload_policies.managed_ledger_offload_bucket = "another"
    assert (await api.update(topic, stored, mask=["*"])).outcome == "UNCHANGED", "the secrets are still the stored ones"


async def test_a_redacted_value_where_no_secret_is_stored_is_refused(api: Api, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        await api.update(topic, shown(only(whole(1), "offload_policies")))
    assert (refused.value.code, refused.value.reason) == ("INVALID_ARGUMENT", "REDACTED_SECRET")
    assert {each.field.rpartition(".")[2] for each in refused.value.violations} == set(SECRETS)
    assert (await api.get(topic)).policies is None


# Fields that the server does not know

UNKNOWN = b"\xfa\xff\x0f\x03new"
"""A field of a later version: the number 32767, with a text."""


@pytest.mark.parametrize(
    ("inside", "mask", "refused"),
    [
        (False, (), True),
        (False, ("*",), True),
        (False, ("max_producer_per_topic",), False),
        (True, ("retention_policies",), True),
        (True, ("max_producer_per_topic",), False),
    ],
)
async def test_unknown_fields_in_what_the_mask_names_are_refused(
    api: Api, topic: str, inside: bool, mask: tuple[str, ...], refused: bool
) -> None:
    sent = only(whole(1), "max_producer_per_topic", "retention_policies")
    if inside:
        sent.retention_policies.MergeFromString(UNKNOWN)
    else:
        sent.MergeFromString(UNKNOWN)
    if refused:
        with pytest.raises(Refused) as caught:
            await api.update(topic, sent, mask=mask)
        assert (caught.value.code, caught.value.violations[0].reason) == ("INVALID_ARGUMENT", "UNKNOWN_FIELD")
        assert (await api.get(topic)).policies is None
    else:
        await api.update(topic, sent, mask=mask)
        assert (await api.get(topic)).policies == pb.TopicPolicies(max_producer_per_topic=whole(1).max_producer_per_topic)
