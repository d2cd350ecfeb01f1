"""LOCAL and GLOBAL documents apart; the names of topics; lists in pages; what one version knows of another's fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from topicpolicies.v1.policies_pb2 import TopicPolicies

from .api import GLOBAL, LOCAL, Api, Document, Refused, namespace_of
from .documents import FIELDS, shown, whole, without
from .watching import documents
from .watching import whole as watched

NAMES = json.loads((Path(__file__).parents[2] / "clients" / "vectors" / "names.json").read_text())
MALFORMED = [
    "", "orders", "public/orders", "persistent://public/default/", "kafka://public/default/orders", "persistent://pub lic/default/orders",
    "persistent:///default/orders", "persistent://public/default/-partition-0", "persistent://public/default/" + "x" * 2_000,
    "persistent://public/default/a\nb",
]  # fmt: skip


def limit(value: int) -> dict[str, Any]:
    return {"max_producer_per_topic": value}


# Scopes


async def test_the_scopes_of_a_topic_are_documents_of_their_own(api: Api, namespace: str, topic: str) -> None:
    local = await api.update(topic, limit(1))
    far = await api.update(topic, limit(2), scope=GLOBAL)
    assert (await api.get(topic), await api.get(topic, GLOBAL)) == (local.document, far.document)
    assert far.previous_version == "0"
    changed = await api.update(topic, limit(3), scope=GLOBAL)
    assert await api.get(topic) == local.document, "a request for one scope never changes the other"
    assert await api.documents(namespace) == [local.document, changed.document], "ordered by topic and scope"
    assert (await api.page(namespace, scopes=[GLOBAL])).documents == [changed.document]
    await api.delete(topic)
    assert (await api.get(topic)).policies is None
    assert await api.get(topic, GLOBAL) == changed.document
    assert [each.document.scope for each in await api.history(topic) if each.kind == "DELETE"] == [LOCAL]


async def test_every_field_has_a_local_and_a_global_value(api: Api, topic: str) -> None:
    only_local = ("shadow_topics", "schema_compatibility_strategy", "replication_clusters")
    await api.update(topic, whole(1), mask=["*"])
    await api.update(topic, without(whole(2), *only_local), mask=["*"], scope=GLOBAL)
    assert (await api.get(topic)).policies == shown(whole(1))
    assert (await api.get(topic, GLOBAL)).policies == shown(without(whole(2), *only_local))
    assert len(FIELDS) > 30


async def test_an_unspecified_scope_means_local_and_an_unknown_one_is_refused(api: Api, topic: str) -> None:
    answer = await api.update(topic, limit(1), scope=0)
    assert answer.document is not None and answer.document.scope == LOCAL
    for call in (api.update(topic, limit(1), scope=7), api.get(topic, 7), api.delete(topic, scope=7)):  # type: ignore[arg-type]
        with pytest.raises(Refused) as refused:
            await call
        assert refused.value.violations[0].reason == "UNKNOWN_SCOPE"


# Names


@pytest.mark.parametrize("example", NAMES, ids=lambda each: each["topic"])
async def test_a_name_means_its_base_topic(api: Api, example: dict[str, str]) -> None:
    """Partitions' names, names without a domain, and names that only look like a partition's."""
    await api.delete(example["topic"])
    answer = await api.update(example["topic"], limit(1))
    assert answer.document is not None and answer.document.topic == example["fullName"]
    assert await api.get(example["topic"]) == answer.document
    assert (await api.history(example["topic"]))[-1].document == answer.document
    assert documents(await watched(api, topics=[example["topic"]], scopes=[LOCAL])) == [answer.document]
    assert (await api.delete(example["topic"])).outcome == "DELETED"


async def test_partitions_share_one_document_and_other_topics_have_theirs(api: Api, namespace: str, topic: str) -> None:
    first = await api.update(f"{topic}-partition-3", limit(1))
    second = await api.update(f"{topic}-partition-0", {"message_ttl_in_seconds": 9}, version=first.version)
    assert second.document == Document(topic, LOCAL, second.version, TopicPolicies(**limit(1), message_ttl_in_seconds=9))
    for other in (
        f"{topic}-partition-",
        f"{topic}-partition-x",
        f"{topic}-partition--1",
        f"{topic}-partition-1-2",
        f"{topic}2",
        topic.upper()[-6:],
    ):
        name = other if "://" in other else f"persistent://{namespace}/{other}"
        answer = await api.update(name, limit(5))
        assert answer.document == Document(name, LOCAL, answer.version, TopicPolicies(**limit(5))) and answer.previous_version == "0"
    assert await api.get(topic) == second.document


async def test_namespaces_and_domains_are_apart(api: Api, namespace: str, topic: str) -> None:
    names = [topic, topic.replace("persistent://", "non-persistent://"), topic.replace(namespace, f"{namespace}-2"), f"{topic}-2"]
    made = [(await api.update(name, limit(value))).document for value, name in enumerate(names)]
    assert [await api.get(name) for name in names] == made
    assert [await api.documents(namespace_of(name)) for name in names[2:3]] == [made[2:3]]


@pytest.mark.parametrize("name", MALFORMED, ids=range(len(MALFORMED)))
async def test_a_malformed_name_is_refused_by_every_method(api: Api, name: str) -> None:
    for call in (api.update(name, limit(1)), api.get(name), api.delete(name), api.effective(name), watched(api, topics=[name])):
        with pytest.raises(Refused) as refused:
            await call
        assert (refused.value.code, refused.value.reason) == ("INVALID_ARGUMENT", "MALFORMED_NAME")
        assert [each.field.partition("[")[0].rstrip("s") for each in refused.value.violations] == ["topic"]


# Pages


async def test_pages_have_every_document_once_in_order_whatever_their_size(api: Api, namespace: str, topic: str) -> None:
    made = [(await api.update(f"{topic}-{number:02}", limit(number))).document for number in range(25)]
    await api.delete(f"{topic}-03")
    expected = made[:3] + made[4:]
    for size in (1, 7, 24, 100, 1_001, 2**31 - 1):
        assert await api.documents(namespace, size) == expected, "a size beyond the most means the most"
    page = await api.page(namespace, size=7)
    assert len(page.documents) == 7 and page.next
    for other in ({"namespace": f"{namespace}-2"}, {"namespace": namespace, "scopes": [GLOBAL]}):
        with pytest.raises(Refused) as refused:
            await api.page(**other, after=page.next)
        assert [(each.field, each.reason) for each in refused.value.violations] == [("page_token", "MALFORMED_TOKEN")]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"namespace": "public"}, "namespace"),
        ({"namespace": "a/b", "size": -1}, "page_size"),
        ({"namespace": "a/b", "scopes": [LOCAL, GLOBAL, LOCAL]}, "scopes[2]"),
        ({"namespace": "a/b", "scopes": [7]}, "scopes[0]"),
        ({"namespace": "a/b", "after": "?"}, "page_token"),
    ],
)
async def test_a_malformed_list_is_refused_with_the_field(api: Api, options: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as refused:
        await api.page(**options)
    assert refused.value.code == "INVALID_ARGUMENT"
    assert [each.field.partition("[")[0] for each in refused.value.violations] == [field.partition("[")[0]]


async def test_no_page_is_larger_than_every_client_can_receive(api: Api, namespace: str, topic: str) -> None:
    """By default, gRPC's clients receive messages of at most 4 MiB."""
    for number in range(8):
        await api.update(f"{topic}-{number}", {"entry_filters": {"entry_filter_names": "x" * 900_000}})
    assert len(await api.documents(namespace, 1_000)) == 8
    assert len(await api.history(namespace=namespace, size=1_000)) == 8
    assert len(documents(await watched(api, [namespace]))) == 8


# Requests of later versions


async def test_fields_that_a_request_has_beyond_this_version_are_no_error(api: Api, topic: str) -> None:
    """But for those inside the policies, which an update would lose (test_masks)."""
    request = b"\x0a" + bytes([len(topic)]) + topic.encode() + b"\xfa\xff\x0f\x03new"
    assert topic.encode() in await api.send_bytes("GetPolicy", request)


@pytest.mark.parametrize("content", [b"\xff", b"\x0a\x7f", b"\x0a\x01\xff"], ids=["no field", "cut off", "no UTF-8"])
async def test_bytes_that_are_no_request_are_refused(api: Api, content: bytes) -> None:
    for method in ("GetPolicy", "UpdatePolicy", "DeletePolicy", "ListPolicies"):
        with pytest.raises(Refused) as refused:
            await api.send_bytes(method, content)
        assert refused.value.code in ("INVALID_ARGUMENT", "INTERNAL"), "gRPC's own code for what it can't decode is INTERNAL"
