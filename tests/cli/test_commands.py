"""The commands about documents: what they send, what they say, and how they end."""

from __future__ import annotations

import json
import uuid

import pytest

from tests.cli.conftest import TOPIC, A, Terminal
from tests.client.fault_service import Fault, FaultService
from tests.client.statuses import Code, Refusal

LOST = Fault(after=1)


def test_update_then_get(terminal: Terminal, service: FaultService) -> None:
    arguments = ("max_producer_per_topic=5", "retention_policies.retention_time_in_minutes=10", "--unset", "message_ttl_in_seconds")
    updated = terminal.json("update", TOPIC, *arguments)
    assert str(uuid.UUID(updated.pop("request_id")))
    policies = {"max_producer_per_topic": 5, "retention_policies": {"retention_time_in_minutes": 10}}
    assert updated == {
        "topic": TOPIC,
        "scope": "SCOPE_LOCAL",
        "policies": policies,
        "version": "v1",
        "previous_version": "v0",
        "outcome": "UPDATE_OUTCOME_APPLIED",
    }
    assert service.metadata["topicpolicies-actor"] == "tests"
    assert terminal.json("get", TOPIC) == {
        "topic": TOPIC,
        "scope": "SCOPE_LOCAL",
        "exists": True,
        "policies": policies,
        "version": "v1",
    }


def test_get_for_people(terminal: Terminal) -> None:
    terminal.json(
        "update", TOPIC, "max_producer_per_topic=5", "subscription_policies.`my-sub`.dispatch_rate.dispatch_throttling_rate_in_msg=9"
    )
    result = terminal.run("get", TOPIC)
    assert result.exit_code == 0
    rows = [line.strip("│ ").split() for line in result.stdout.splitlines() if line.startswith("│")]
    assert result.stdout.splitlines()[0] == f"{TOPIC}  LOCAL  version v1"
    assert [[name, value] for name, _, value in rows] == [
        ["max_producer_per_topic", "5"],
        ["subscription_policies.`my-sub`.dispatch_rate.dispatch_throttling_rate_in_msg", "9"],
    ]


def test_a_document_that_is_not_there_is_exit_code_four(terminal: Terminal) -> None:
    result = terminal.run("get", TOPIC, "--scope", "global")
    assert result.exit_code == 4
    assert result.stdout == ""
    assert result.stderr == f"{TOPIC} has no GLOBAL document (version v0).\n"
    result = terminal.run("get", TOPIC, "-o", "json")
    assert result.exit_code == 4
    assert json.loads(result.stdout) == {"topic": TOPIC, "scope": "SCOPE_LOCAL", "exists": False, "version": "v0"}


def test_secrets_are_masked_for_people(terminal: Terminal) -> None:
    terminal.json(
        "update",
        TOPIC,
        "offload_policies.s3_managed_ledger_offload_credential_id=AKIA",
        "offload_policies.s3_managed_ledger_offload_credential_secret=hush",
        "offload_policies.managed_ledger_extra_configurations.`azure.accessKey`=hush",
        "offload_policies.managed_ledger_offload_bucket=bucket",
    )
    for command in (("get", TOPIC), ("list", A), ("update", TOPIC, "max_producer_per_topic=1")):
        shown = terminal.run(*command).output
        assert "hush" not in shown
        assert "AKIA" not in shown
        assert shown.count("********") == 3
        assert "bucket" in shown


def test_what_comes_from_outside_does_not_move_the_cursor(terminal: Terminal) -> None:
    terminal.json("update", TOPIC, "entry_filters.entry_filter_names=a\x1b[31m[bold]b")
    shown = terminal.run("get", TOPIC).stdout
    assert "\x1b" not in shown
    assert "a\\x1b[31m[bold]b" in shown


def test_the_global_options_may_stand_anywhere(terminal: Terminal) -> None:
    before = terminal.run("--output", "json", "get", TOPIC)
    behind = terminal.run("get", "-ojson", TOPIC)
    between = terminal.run("get", "--output", "json", TOPIC, "--timeout=5")
    assert before.stdout == behind.stdout == between.stdout
    assert json.loads(before.stdout)["exists"] is False


def test_a_path_that_looks_like_an_option_goes_behind_two_dashes(terminal: Terminal) -> None:
    result = terminal.run("update", TOPIC, "--", "--server=5")
    assert result.exit_code == 2
    assert "names nothing" in result.stderr


def test_conflict_is_exit_code_three(terminal: Terminal) -> None:
    code, error = terminal.failing("update", TOPIC, "max_producer_per_topic=1", "--etag", "v7")
    assert code == 3
    assert error == {"code": "ABORTED", "reason": "ETAG_MISMATCH", "message": "Changed.", "metadata": {"version": "v0"}}


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (Refusal(Code.INVALID_ARGUMENT, "No.", "BAD"), 2),
        (Refusal(Code.ABORTED, "No.", "ETAG_MISMATCH"), 3),
        (Refusal(Code.NOT_FOUND, "No.", "TOPIC_NOT_FOUND"), 4),
        (Refusal(Code.FAILED_PRECONDITION, "No.", "TOPIC_POLICIES_DISABLED"), 1),
        (Refusal(Code.PERMISSION_DENIED, "No.", "NOT_ALLOWED"), 1),
        (Refusal(Code.RESOURCE_EXHAUSTED, "No.", "TOO_MANY"), 1),
    ],
)
def test_every_kind_of_failure_has_its_exit_code(terminal: Terminal, service: FaultService, refusal: Refusal, code: int) -> None:
    service.faults.append(Fault(refusal))
    ended, error = terminal.failing("update", TOPIC, "max_producer_per_topic=1")
    assert (ended, error["code"], error["reason"]) == (code, refusal.code.name, refusal.reason)
    assert service.met["UpdatePolicy"] == 1


def test_without_a_server_it_says_where_it_looked(terminal: Terminal) -> None:
    result = terminal.run("get", TOPIC, "--server", "127.0.0.1:1", "--timeout", "0.3")
    assert result.exit_code == 5
    assert (
        result.stderr
        == "Error: No server can be reached at 127.0.0.1:1 (Connection refused). Name it with --server or TOPICPOLICIES_SERVER.\n"
    )


def test_an_unknown_outcome_is_exit_code_six_and_its_request_can_be_repeated(terminal: Terminal, service: FaultService) -> None:
    service.faults.extend([LOST] * 50)
    code, error = terminal.failing("update", TOPIC, "max_producer_per_topic=1", "--timeout", "0.3")
    assert code == 6
    assert service.met["UpdatePolicy"] > 0
    service.faults.clear()
    repeat = terminal.json("update", TOPIC, "max_producer_per_topic=1", "--request-id", error["request_id"])
    assert repeat["repeated"] is True
    assert service.documents[TOPIC][1] == 1


def test_every_violation_is_told(terminal: Terminal, service: FaultService) -> None:
    refusal = Refusal(Code.INVALID_ARGUMENT, "A. B.", "BAD", violations=[("policies.x", "X", "A."), ("policies.y", "Y", "B.")])
    service.faults.extend([Fault(refusal)] * 2)
    result = terminal.run("update", TOPIC, "max_producer_per_topic=1")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == ["Error: the request has 2 problems.", "  - policies.x: A.", "  - policies.y: B."]
    _, error = terminal.failing("update", TOPIC, "max_producer_per_topic=1")
    assert error["violations"] == [
        {"field": "policies.x", "reason": "X", "description": "A."},
        {"field": "policies.y", "reason": "Y", "description": "B."},
    ]


def test_a_wrong_value_is_refused_before_anything_is_sent(terminal: Terminal, service: FaultService) -> None:
    result = terminal.run("update", TOPIC, "max_producer_per_topic=many")
    assert result.exit_code == 2
    assert result.stderr == 'Error: max_producer_per_topic takes a whole number, not "many".\n'
    assert terminal.run("update", TOPIC).exit_code == 2
    assert not service.documents


@pytest.mark.parametrize(
    "arguments", [("bogus",), ("get",), ("get", "a/b/c", "--scope", "sideways"), ("get", "a/b/c", "--timeout", "never")]
)
def test_wrong_usage_is_exit_code_two_in_either_form(terminal: Terminal, arguments: tuple[str, ...]) -> None:
    assert terminal.run(*arguments).exit_code == 2
    code, error = terminal.failing(*arguments)
    assert (code, error["code"], error["reason"]) == (2, "INVALID_ARGUMENT", "USAGE")


def test_contradicting_options_are_wrong_usage(terminal: Terminal) -> None:
    for arguments in (
        ("delete", TOPIC, "--scope", "both", "--etag", "v1"),
        ("get", TOPIC, "--tls-certificate", "x"),
        ("get", TOPIC, "--no-tls", "--tls-server-name", "x"),
    ):
        code, error = terminal.failing(*arguments)
        assert (code, error["reason"]) == (2, "USAGE")


def test_a_file_that_can_not_be_read_is_named(terminal: Terminal) -> None:
    code, error = terminal.failing("get", TOPIC, "--tls-ca", "no-such.pem")
    assert code == 1
    assert error["message"] == "no-such.pem: No such file or directory"


def test_delete_says_what_became_of_each_scope(terminal: Terminal) -> None:
    terminal.json("update", TOPIC, "max_producer_per_topic=1")
    deleted = terminal.json("delete", TOPIC, "--scope", "both")
    assert [result.get("outcome") for result in deleted["results"]] == ["DELETE_OUTCOME_DELETED", "DELETE_OUTCOME_ABSENT"]
    result = terminal.run("delete", TOPIC)
    assert result.exit_code == 0
    assert "there was no document" in result.stdout


def test_a_delete_that_fails_for_one_scope_fails(terminal: Terminal) -> None:
    result = terminal.run("delete", TOPIC, "--etag", "v9", "--output", "json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["results"][0]["error"]["reason"] == "ETAG_MISMATCH"
    result = terminal.run("delete", TOPIC, "--etag", "v9")
    assert result.exit_code == 3
    assert result.stderr.splitlines() == ["LOCAL: not deleted", "Error: Changed."]


def test_list_goes_through_all_pages(terminal: Terminal) -> None:
    for local in "edcba":
        terminal.json("update", f"persistent://{A}/{local}", "max_producer_per_topic=1")
    assert [entry["topic"][-1] for entry in terminal.json("list", A)["entries"]] == list("abcde")
    shown = terminal.run("list", A)
    assert shown.stdout.count("max_producer_per_topic=1") == 5
    assert shown.stderr == f"5 documents in {A}\n"
    assert terminal.json("list", "public/empty") == {"entries": []}


def test_version(terminal: Terminal) -> None:
    assert terminal.run("version").stdout.startswith("topicpolicies ")
    assert set(terminal.json("version")) == {"version"}


@pytest.mark.parametrize("command", ["get", "update", "delete", "list", "watch", "health", "serve", "demo"])
def test_every_command_has_examples_and_names_its_exit_codes(terminal: Terminal, command: str) -> None:
    shown = terminal.run(command, "--help").stdout
    assert f"\n    topicpolicies {command}" in shown
    assert "6 outcome unknown" in " ".join(shown.split())
