"""Documents as shown to people: every setting, and no secret."""

from __future__ import annotations

from contextvars import ContextVar

import pytest
from google.protobuf.message import Message
from hypothesis import given

from tests.core.policies import policies
from topicpolicies import OffloadPolicies, TopicPolicies
from topicpolicies.masks import parse_path, paths_between
from topicpolicies.secrets import REDACTED
from topicpolicies_server.cli import rendering
from topicpolicies_server.cli.rendering import columns
from topicpolicies_server.declared.values import compact, lines, one_line
from topicpolicies_server.escaping import printable


def leaves(message: Message) -> int:
    """Counts the leaves that are set, without the code under test."""
    count = 0
    for field, value in message.ListFields():
        if field.message_type is None:
            count += 1
        elif field.message_type.GetOptions().map_entry:
            for key in value:
                count += 1 if isinstance(value[key], str) else max(1, leaves(value[key]))
        else:
            count += max(1, leaves(value))
    return count


@given(policies())
def test_every_leaf_is_shown_once_and_in_order(document: TopicPolicies) -> None:
    shown = [path for path, _ in lines(document)]
    assert len(shown) == len(set(shown)) == leaves(document)
    assert [path[0] for path in shown] == sorted(path[0] for path in shown)


@given(policies(), policies())
def test_differences_name_every_changed_path_and_every_new_value(before: TopicPolicies, after: TopicPolicies) -> None:
    text = one_line(before, after)
    if before == after:
        assert text == "no settings changed"
    for path in paths_between(before, after):
        assert parse_path(path)[0] in text
    for leaf, value in set(lines(after)) - set(lines(before)):
        assert value in text, leaf


def test_a_difference_shows_the_old_and_the_new_value() -> None:
    before = TopicPolicies(max_producer_per_topic=1, shadow_topics=["a"])
    after = TopicPolicies(max_producer_per_topic=2, deduplication_enabled=False)
    text = one_line(before, after).split(", ")
    assert set(text) == {"max_producer_per_topic: 1 -> 2", "shadow_topics: a -> unset", "deduplication_enabled: unset -> false"}
    assert one_line(None, after) == "deduplication_enabled: unset -> false, max_producer_per_topic: unset -> 2"


def test_the_compact_form_shows_a_document_on_one_line() -> None:
    document = TopicPolicies(subscription_types_enabled=[2, 4], schema_compatibility_strategy=8)  # type: ignore[list-item, arg-type]
    document.persistence.managed_ledger_max_mark_delete_rate = 0.5
    document.subscription_policies["a.b"].SetInParent()
    assert compact(document) == (
        "persistence.managed_ledger_max_mark_delete_rate=0.5, schema_compatibility_strategy=full_transitive,"
        " subscription_policies.`a.b`={}, subscription_types_enabled=shared, key_shared"
    )
    assert compact(TopicPolicies()) == "no settings"


@pytest.mark.parametrize(
    ("policies", "secrets"),
    [
        (OffloadPolicies(s3_managed_ledger_offload_credential_id="x", s3_managed_ledger_offload_credential_secret="x"), 2),
        (OffloadPolicies(managed_ledger_extra_configurations={"azureStorageAccessKey": "x", "my.Password": "x", "sas-token": "x"}), 3),
        (OffloadPolicies(managed_ledger_extra_configurations={"prefix": "x"}, managed_ledger_offload_bucket="x"), 0),
        (OffloadPolicies(gcs_managed_ledger_offload_service_account_key_file="x"), 0),
    ],
)
def test_secrets_of_the_object_storage_are_masked(policies: OffloadPolicies, secrets: int) -> None:
    shown = [value for _, value in lines(TopicPolicies(offload_policies=policies))]
    assert shown.count(REDACTED) == secrets
    assert shown.count("x") == len(shown) - secrets
    assert f"{REDACTED} -> unset" in one_line(TopicPolicies(offload_policies=policies), TopicPolicies()) or not secrets


def test_every_credential_field_of_the_definition_is_masked() -> None:
    credentials = [field.name for field in OffloadPolicies.DESCRIPTOR.fields if "credential" in field.name]
    assert len(credentials) >= 2
    policies = OffloadPolicies()
    for name in credentials:
        setattr(policies, name, "x")
    assert {value for _, value in lines(TopicPolicies(offload_policies=policies))} == {REDACTED}


def test_control_characters_are_escaped() -> None:
    assert printable("a\x1b[2J\n\u202eb\u00e4") == "a\\x1b[2J\\n\\u202eb\u00e4"


def test_the_last_column_is_folded_to_the_width_of_a_terminal_and_never_without_one() -> None:
    text = "words " * 20 + "end"
    narrow, wide = [("name", text), ("n", "short")], [("n" * 50, text), ("n", "short")]
    for rows in (narrow, wide):
        assert max(map(len, columns(rows))) > 120
        shown = "\n".join(columns(rows, 80)).splitlines()
        assert max(map(len, shown)) <= 80
        assert " ".join(" ".join(shown).split()) == " ".join(" ".join(row) for row in rows)
    assert all(line.startswith(" " * 6) for line in next(columns(narrow, 80)).splitlines()[1:])


def test_a_row_that_is_too_wide_leaves_the_columns_of_the_others() -> None:
    path = f"subscription_policies.`{'s' * 40}`.dispatch_rate.dispatch_throttling_rate_in_msg"
    rows = [("max_producer_per_topic", "5"), (path, "10"), ("message_ttl_in_seconds", "1h")]
    assert "\n".join(columns(rows, 80)).splitlines() == [
        "max_producer_per_topic  5",
        path,
        "    10",
        "message_ttl_in_seconds  1h",
    ]
    listed = ("persistent://acme-corporation/production-orders/customer-invoices-v2", "LOCAL", "11", "max_producer_per_topic=5")
    assert list(columns([listed, ("a", "LOCAL", "12", "none")], 80)) == [
        f"{'  '.join(listed[:3])}\n    {listed[3]}",
        "a  LOCAL  12  none",
    ]


def test_a_long_line_is_folded_on_a_terminal_and_only_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    line = "  12:00  " + "words " * 30 + "end"
    monkeypatch.setenv("COLUMNS", "80")
    for terminal, wide, folded in ((False, False, False), (True, True, False), (True, False, True)):
        monkeypatch.setattr("sys.stdout.isatty", lambda terminal=terminal: terminal)
        monkeypatch.setattr(rendering, "WIDE", ContextVar("WIDE", default=wide))
        rendering.show_folded(line)
        shown = capsys.readouterr().out.splitlines()
        assert (len(shown) > 1, max(map(len, shown)) <= 80) == (folded, folded)
        assert " ".join(" ".join(shown).split()) == " ".join(line.split()) and shown[0].startswith("  12:00  words")
        assert all(each.startswith(" " * 6) for each in shown[1:])
