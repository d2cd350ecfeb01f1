"""Secrets that a caller gives, the credentials of object storages, are not shown by reprs and errors, which end up in logs."""

from __future__ import annotations

from typing import Any

import pytest

import topicpolicies as tp

TOPIC = "persistent://public/default/orders"
NAME = "s3_managed_ledger_offload_credential_secret"
EXTRA = "managed_ledger_extra_configurations"
POLICIES = tp.TopicPolicies(
    max_producer_per_topic=5,
    offload_policies=tp.OffloadPolicies(
        managed_ledger_offload_bucket="bucket",
        s3_managed_ledger_offload_credential_secret="hunter2",
        managed_ledger_extra_configurations={"account.password": "hunter2", "region": "north"},
    ),
)


@pytest.mark.parametrize(
    "update",
    [
        tp.Update(TOPIC, POLICIES),
        tp.Update(TOPIC, offload_policies=POLICIES.offload_policies),
        tp.Update(TOPIC, offload_policies={NAME: "hunter2", EXTRA: {"account.password": "hunter2", "region": "north"}}),
        tp.Update(TOPIC, {f"offload_policies.{NAME}": "hunter2", f"offload_policies.{EXTRA}": {"region": "north"}}),
        tp.Update(TOPIC, {f"offload_policies.{EXTRA}.`account.password`": "hunter2", f"offload_policies.{EXTRA}.region": "north"}),
    ],
)
def test_the_repr_of_an_update_has_no_secrets(update: tp.Update) -> None:
    assert "hunter2" not in repr(update)
    assert "********" in repr(update)
    assert "north" in repr(update)
    assert "hunter2" in str(update.request())


def test_the_repr_of_a_document_that_was_sent_with_its_secrets_has_none() -> None:
    document = tp.Document(TOPIC, tp.Scope.LOCAL, POLICIES, "1")
    assert "hunter2" not in repr(document)
    assert 'managed_ledger_offload_bucket: "bucket"' in repr(document)
    assert document.policies is not None
    assert document.policies.offload_policies.s3_managed_ledger_offload_credential_secret == "hunter2"


WRONG: list[dict[str, Any]] = [
    {"offload_policies": {NAME: b"hunter2"}},
    {"offload_policies": {NAME: 74552}},
    {"offload_policies": [NAME, "hunter2"]},
    {"offload_policies": {EXTRA: {"account.password": ["hunter2"]}}},
    {"offload_policies": {EXTRA: ["hunter2"]}},
    {f"offload_policies.{NAME}": ["hunter2"]},
]


@pytest.mark.parametrize("values", WRONG)
def test_the_error_of_a_secret_of_a_wrong_type_does_not_show_it(values: dict[str, Any]) -> None:
    with pytest.raises(tp.InvalidArgument, match="not a value of the type") as caught:
        tp.Update(TOPIC, values).request()
    assert "hunter2" not in str(caught.value)
    assert "74552" not in str(caught.value)


def test_the_error_of_another_value_of_a_wrong_type_shows_it() -> None:
    with pytest.raises(tp.InvalidArgument, match="takes a whole number, not 'many'"):
        tp.Update(TOPIC, max_producer_per_topic="many").request()  # type: ignore[arg-type]
