"""Secrets are redacted in documents that are shown, and writing back a redacted document keeps them."""

from __future__ import annotations

import json

import pytest

from topicpolicies.secrets import REDACTED, is_secret
from topicpolicies.v1.policies_pb2 import OffloadPolicies, TopicPolicies
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.policies import documents, secrets
from topicpolicies_server.core.policies.documents import Document

ID, SECRET = "s3_managed_ledger_offload_credential_id", "s3_managed_ledger_offload_credential_secret"


def document(max_producer_per_topic: int | None = None) -> Document:
    offload = OffloadPolicies(managed_ledger_offload_bucket="bucket", managed_ledger_offload_driver="aws-s3")
    offload.s3_managed_ledger_offload_credential_id = "AKIA"
    offload.s3_managed_ledger_offload_credential_secret = "hush"
    offload.managed_ledger_extra_configurations["azure.accountKey"] = "hush"
    offload.managed_ledger_extra_configurations["compression"] = "none"
    newer = {
        "newerCredential": "hush",
        "newerBucket": "b",
        "tiers": [{"name": "cold", "login": {"id": "guest", "accessKey": "hush", "tokens": ["hush"]}}, None],
    }
    offload.MergeFromString(documents.record(documents.EXTRAS_TAG, json.dumps(newer).encode()))
    policies = TopicPolicies(max_producer_per_topic=max_producer_per_topic)
    policies.offload_policies.CopyFrom(offload)
    return documents.split(policies)


def shown(settings: Document) -> TopicPolicies:
    return TopicPolicies.FromString(secrets.wire(settings))


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        ((ID,), True),
        ((SECRET,), True),
        (("managed_ledger_extra_configurations", "azure.accountKey"), True),
        (("managed_ledger_extra_configurations", "sas.TOKEN"), True),
        (("managed_ledger_extra_configurations", "db.password"), True),
        (("managed_ledger_extra_configurations", "compression"), False),
        (("managed_ledger_offload_bucket",), False),
        (("gcs_managed_ledger_offload_service_account_key_file",), False),
        ((), False),
    ],
)
def test_secrets_are_recognized_by_their_paths(path: tuple[str, ...], secret: bool) -> None:
    assert is_secret(("offload_policies", *path)) is secret


def test_a_shown_document_has_everything_but_the_secrets() -> None:
    raw = secrets.wire(document(max_producer_per_topic=5))
    assert b"hush" not in raw
    assert b"AKIA" not in raw
    policies = TopicPolicies.FromString(raw)
    offload = policies.offload_policies
    assert (offload.s3_managed_ledger_offload_credential_id, offload.s3_managed_ledger_offload_credential_secret) == (REDACTED, REDACTED)
    assert dict(offload.managed_ledger_extra_configurations) == {"azure.accountKey": REDACTED, "compression": "none"}
    assert (offload.managed_ledger_offload_bucket, policies.max_producer_per_topic) == ("bucket", 5)
    assert b'"newerBucket":"b"' in raw


def extras_shown(*extras: bytes) -> bytes:
    """Returns what is shown of a document with these bytes in place of a newer broker's leaves."""
    policies = TopicPolicies(offload_policies=OffloadPolicies(managed_ledger_offload_bucket="bucket"))
    for each in extras:
        policies.offload_policies.MergeFromString(documents.record(documents.EXTRAS_TAG, each))
    return secrets.wire(documents.split(policies))


def test_secrets_of_a_newer_broker_are_redacted_at_every_depth() -> None:
    shown = secrets.wire(document())
    tiers = b'"tiers":[{"login":{"accessKey":"********","id":"guest","tokens":"********"},"name":"cold"},null]'
    assert tiers in shown and b"hush" not in shown
    assert b"hush" not in extras_shown(b'{"a":{"b":[[{"c":{"private_key":{"pem":"hush"}}}]]}}')
    assert b"hush" not in extras_shown(b'{"secret":"hush"}', b'{"a":1}')


@pytest.mark.parametrize(
    "extras",
    [
        b'{"a":' * 40 + b'"hush"' + b"}" * 40,
        b'{"a":' * 100_000 + b'"hush"' + b"}" * 100_000,
        b'{"a":' + b"[" * 100_000 + b'"hush"' + b"]" * 100_000 + b"}",
        b'["hush"]',
        b"hush, and no JSON",
        b'{"password":"hush"',
    ],
    ids=["deep", "bottomless", "lists", "no object", "no JSON", "half"],
)
def test_a_newer_brokers_leaves_that_cannot_be_searched_for_secrets_are_not_shown(extras: bytes) -> None:
    shown = extras_shown(extras)
    assert b"hush" not in shown and b"bucket" in shown
    beside = extras_shown(extras, b'{"newerBucket":"b"}')
    assert b"hush" not in beside and b'"newerBucket":"b"' in beside


def test_a_document_without_secrets_is_shown_as_its_own_bytes() -> None:
    settings = documents.split(TopicPolicies(offload_policies=OffloadPolicies(managed_ledger_offload_bucket="b")))
    assert secrets.redacted(settings["offload_policies"]) is settings["offload_policies"]
    assert secrets.wire({"x": b"y"}) == b"y"


@pytest.mark.parametrize(
    "mask",
    [
        ["*"],
        ["offload_policies"],
        [f"offload_policies.{SECRET}", f"offload_policies.{ID}"],
        ["offload_policies.managed_ledger_extra_configurations"],
        ["offload_policies.managed_ledger_extra_configurations.`azure.accountKey`"],
        [],
    ],
)
def test_writing_back_a_shown_document_changes_nothing(mask: list[str]) -> None:
    before = document(max_producer_per_topic=5)
    change = compile_change(shown(before), mask, {})
    assert change.apply(before) == before
    assert change.applied(before).reads == {"offload_policies": documents.digest(before["offload_policies"])}


@pytest.mark.parametrize("mask", [["*"], ["offload_policies"]])
def test_other_leaves_change_while_a_redacted_secret_is_kept(mask: list[str]) -> None:
    policies = shown(document())
    policies.offload_policies.managed_ledger_offload_bucket = "another"
    policies.offload_policies.s3_managed_ledger_offload_credential_id = "AKIB"
    after = documents.join(compile_change(policies, mask, {}).apply(document())).offload_policies
    assert after.managed_ledger_offload_bucket == "another"
    assert after.s3_managed_ledger_offload_credential_id == "AKIB"
    assert after.s3_managed_ledger_offload_credential_secret == "hush"
    assert after.managed_ledger_extra_configurations["azure.accountKey"] == "hush"


@pytest.mark.parametrize("mask", [["*"], ["offload_policies"], [f"offload_policies.{SECRET}"]])
def test_a_redaction_mark_is_refused_where_the_document_has_no_secret(mask: list[str]) -> None:
    policies = TopicPolicies()
    policies.offload_policies.s3_managed_ledger_offload_credential_secret = REDACTED
    with pytest.raises(PolicyError) as caught:
        compile_change(policies, mask, {}).apply(None)
    assert caught.value.violations[0].reason == "REDACTED_SECRET"
    assert [each.field for each in caught.value.violations] == [f"policies.offload_policies.{SECRET}"]


def test_the_redaction_mark_is_an_ordinary_value_where_no_secret_belongs() -> None:
    policies = TopicPolicies()
    policies.offload_policies.managed_ledger_offload_bucket = REDACTED
    after = documents.join(compile_change(policies, ["offload_policies"], {}).apply(None))
    assert after.offload_policies.managed_ledger_offload_bucket == REDACTED
