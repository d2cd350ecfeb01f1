"""The commands for documents: what they send, what they print, and their exit codes."""

from __future__ import annotations

import json
import re
import uuid

import pytest

from tests.cli.conftest import TOPIC, A, Terminal
from tests.cli.faults import Fault, Proxy
from tests.cli.real_server import running
from tests.client.statuses import Code, Refusal
from topicpolicies import Client, update_request

LOST = Fault(after=1)


def rows(text: str) -> list[list[str]]:
    """Returns the cells of lines in columns, without the heading."""
    return [re.split("  +", line) for line in text.splitlines() if not line.startswith("persistent://")]


def test_get_shows_the_document_that_update_made(terminal: Terminal) -> None:
    arguments = ("max_producer_per_topic=5", "retention_policies.retention_time_in_minutes=10")
    size = "retention_policies.retention_size_in_mb=100"
    updated = terminal.json("update", TOPIC, *arguments, size, "--unset", "message_ttl_in_seconds")
    assert str(uuid.UUID(updated.pop("request_id")))
    policies = {"max_producer_per_topic": 5, "retention_policies": {"retention_time_in_minutes": 10, "retention_size_in_mb": "100"}}
    document = {"topic": TOPIC, "scope": "SCOPE_LOCAL", "policies": policies, "version": updated["version"]}
    assert updated == {
        "document": document,
        "version": document["version"],
        "previous_version": "0",
        "outcome": "CHANGE_OUTCOME_APPLIED",
        "previous": {"topic": TOPIC, "scope": "SCOPE_LOCAL", "version": "0"},
    }
    assert terminal.json("get", TOPIC) == document


def test_get_of_both_scopes_shows_both_documents(terminal: Terminal) -> None:
    assert terminal.run("get", TOPIC, "--scope", "both").exit_code == 4
    version = terminal.json("update", TOPIC, "max_producer_per_topic=5", "--scope", "global")["version"]
    assert terminal.json("get", TOPIC, "--scope", "both") == {
        "documents": [
            {"topic": TOPIC, "scope": "SCOPE_LOCAL", "version": "0"},
            {"topic": TOPIC, "scope": "SCOPE_GLOBAL", "policies": {"max_producer_per_topic": 5}, "version": version},
        ]
    }
    result = terminal.run("get", TOPIC, "--scope", "both")
    assert (result.exit_code, rows(result.stdout)) == (0, [["max_producer_per_topic", "5"]])
    assert result.stderr == f"{TOPIC} has no LOCAL document (version 0).\n"


def test_a_change_has_the_actor_and_the_reason_of_its_options(recorded: Terminal) -> None:
    recorded.json("update", TOPIC, "max_producer_per_topic=5", "--actor", "J\u00f6rg", "--reason", "f\u00fcr alle")
    recorded.json("delete", TOPIC, "--reason", "not needed")
    origins = [each["entry"]["origin"] for each in recorded.lines("history", TOPIC) if "actor" in each["entry"]["origin"]]
    assert [(origin["actor"], origin["reason"]) for origin in origins] == [("tests", "not needed"), ("J\u00f6rg", "f\u00fcr alle")]


def test_a_dry_run_shows_the_result_and_writes_nothing(terminal: Terminal) -> None:
    would = terminal.json("update", TOPIC, "max_producer_per_topic=5", "--validate-only")
    assert (would["outcome"], would["document"]["policies"]) == ("CHANGE_OUTCOME_WOULD_APPLY", {"max_producer_per_topic": 5})
    assert "Would apply: " in terminal.run("update", TOPIC, "max_producer_per_topic=5", "--validate-only").stdout
    version = terminal.json("update", TOPIC, "max_producer_per_topic=6")["version"]
    assert terminal.json("delete", TOPIC, "--validate-only")["outcome"] == "CHANGE_OUTCOME_WOULD_APPLY"
    output = terminal.run("delete", TOPIC, "--validate-only").stdout
    assert output.startswith(f"Would apply: {TOPIC}  LOCAL  deleted (version {version}, before {version})\n-  max_producer_per_topic")
    assert terminal.json("get", TOPIC)["version"] == version


def test_the_previous_document_is_shown(terminal: Terminal) -> None:
    first = terminal.json("update", TOPIC, "max_producer_per_topic=5")
    assert first["previous"] == {"topic": TOPIC, "scope": "SCOPE_LOCAL", "version": "0"}
    assert "\n~  max_producer_per_topic  5 -> 6\n" in terminal.run("update", TOPIC, "max_producer_per_topic=6").stdout
    assert terminal.json("delete", TOPIC)["previous"]["policies"] == {"max_producer_per_topic": 6}


def test_without_a_mask_entries_of_maps_are_merged_and_with_one_its_fields_are_replaced(terminal: Terminal) -> None:
    rate = 'subscription_policies={{"{}": {{"dispatch_rate": {{"dispatch_throttling_rate_in_msg": 1}}}}}}'
    terminal.json("update", TOPIC, rate.format("a"), "max_producer_per_topic=5")

    def subscriptions(*arguments: str) -> list[str]:
        return sorted(terminal.json("update", TOPIC, *arguments)["document"]["policies"]["subscription_policies"])

    assert subscriptions(rate.format("b")) == ["a", "b"]
    assert subscriptions(rate.format("c"), "--mask", "subscription_policies", "--unset", "message_ttl_in_seconds") == ["c"]
    assert terminal.json("get", TOPIC)["policies"]["max_producer_per_topic"] == 5
    assert terminal.json("update", TOPIC, "message_ttl_in_seconds=9", "--mask", "*")["document"]["policies"] == {
        "message_ttl_in_seconds": 9
    }
    code, error = terminal.failing("update", TOPIC, "max_producer_per_topic=1", rate.format("d"), "--mask", "subscription_policies")
    assert (code, error["violations"][0]["reason"]) == (2, "NOT_IN_MASK")


def test_get_shows_a_table_of_the_settings(terminal: Terminal) -> None:
    terminal.json(
        "update", TOPIC, "max_producer_per_topic=5", "subscription_policies.`my-sub`.dispatch_rate.dispatch_throttling_rate_in_msg=9"
    )
    result = terminal.run("get", TOPIC)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == f"{TOPIC}  LOCAL  version {terminal.json('get', TOPIC)['version']}"
    rate = "subscription_policies.`my-sub`.dispatch_rate"
    assert rows(result.stdout) == [
        ["max_producer_per_topic", "5"],
        [f"{rate}.dispatch_throttling_rate_in_byte", "-1"],
        [f"{rate}.dispatch_throttling_rate_in_msg", "9"],
        [f"{rate}.rate_period_in_second", "1s"],
        [f"{rate}.relative_to_publish_rate", "false"],
    ]


def test_an_absent_document_is_exit_code_four(terminal: Terminal) -> None:
    result = terminal.run("get", TOPIC, "--scope", "global")
    assert result.exit_code == 4
    assert result.stdout == ""
    assert result.stderr == f"{TOPIC} has no GLOBAL document (version 0).\n"
    result = terminal.run("get", TOPIC, "-o", "json")
    assert result.exit_code == 4
    assert json.loads(result.stdout) == {"topic": TOPIC, "scope": "SCOPE_LOCAL", "version": "0"}


def test_the_deletion_of_nothing_says_so_and_succeeds(terminal: Terminal) -> None:
    ended = terminal.run("delete", TOPIC)
    assert (ended.exit_code, ended.stdout) == (0, f"Unchanged: {TOPIC}  LOCAL  there was no document (version 0, before 0)\n")
    terminal.write(A, "orders", 5)
    assert f"Applied: {TOPIC}  LOCAL  deleted (version" in terminal.run("delete", TOPIC).stdout


def test_secrets_are_masked_in_output_for_people_even_if_the_server_shows_them() -> None:
    with running(None, show_secrets=True) as address:
        terminal = Terminal(address)
        output = terminal.json(
            "update",
            TOPIC,
            "offload_policies.managed_ledger_offload_driver=aws-s3",
            "offload_policies.managed_ledger_offload_region=r",
            "offload_policies.s3_managed_ledger_offload_credential_id=AKIA",
            "offload_policies.s3_managed_ledger_offload_credential_secret=hush",
            "offload_policies.managed_ledger_extra_configurations.`azure.accessKey`=hush",
            "offload_policies.managed_ledger_offload_bucket=bucket",
        )
        assert "hush" in json.dumps(output)
        assert "hush" not in terminal.run("list", A).output
        for command in (("get", TOPIC), ("delete", TOPIC)):
            shown = terminal.run(*command).output
            assert "hush" not in shown
            assert "AKIA" not in shown
            assert shown.count("********") == 3
            assert "bucket" in shown


def test_control_characters_in_values_are_escaped_in_the_output(terminal: Terminal) -> None:
    terminal.json("update", TOPIC, "entry_filters.entry_filter_names=a\x1b[31m[bold]b")
    shown = terminal.run("get", TOPIC).stdout
    assert "\x1b" not in shown
    assert "a\\x1b[31m[bold]b" in shown


def test_global_options_are_accepted_at_any_position(terminal: Terminal) -> None:
    before = terminal.run("--output", "json", "get", TOPIC)
    behind = terminal.run("get", "-ojson", TOPIC)
    between = terminal.run("get", "--output", "json", TOPIC, "--timeout=5")
    assert before.stdout == behind.stdout == between.stdout
    assert "policies" not in json.loads(before.stdout)


def test_a_path_that_looks_like_an_option_can_follow_two_dashes(terminal: Terminal) -> None:
    result = terminal.run("update", TOPIC, "--", "--server=5")
    assert result.exit_code == 2
    assert "is not a path" in result.stderr


def test_a_conflict_is_exit_code_three(terminal: Terminal) -> None:
    version = terminal.json("update", TOPIC, "max_producer_per_topic=1")["version"]
    code, error = terminal.failing("update", TOPIC, "max_producer_per_topic=1", "--if-version", "0")
    assert (code, error["code"], error["reason"]) == (3, "ABORTED", "PRECONDITION_FAILED")
    assert error["metadata"] == {"topic": TOPIC, "scope": "LOCAL", "version": version}
    code, error = terminal.failing("update", TOPIC, "max_producer_per_topic=1", "--must-not-exist")
    assert (code, error["code"], error["reason"]) == (3, "ABORTED", "PRECONDITION_FAILED")
    assert terminal.json("update", TOPIC, "max_producer_per_topic=2", "--if-version", version)["outcome"] == "CHANGE_OUTCOME_APPLIED"


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (Refusal(Code.INVALID_ARGUMENT, "No.", "INVALID_REQUEST"), 2),
        (Refusal(Code.ABORTED, "No.", "PRECONDITION_FAILED"), 3),
        (Refusal(Code.NOT_FOUND, "No.", "TOPIC_NOT_FOUND"), 4),
        (Refusal(Code.FAILED_PRECONDITION, "No.", "TOPIC_POLICIES_DISABLED"), 1),
        (Refusal(Code.PERMISSION_DENIED, "No.", "PERMISSION_DENIED"), 1),
        (Refusal(Code.RESOURCE_EXHAUSTED, "No.", "LIMIT_REACHED"), 1),
    ],
)
def test_every_kind_of_failure_has_its_exit_code(terminal: Terminal, proxy: Proxy, refusal: Refusal, code: int) -> None:
    proxy.faults.append(Fault(refusal))
    ended, error = terminal.failing("update", TOPIC, "max_producer_per_topic=1")
    assert (ended, error["code"], error["reason"]) == (code, refusal.code.name, refusal.reason)
    assert proxy.met["UpdatePolicy"] == 1


def test_without_a_server_the_error_names_the_address_and_the_options(terminal: Terminal) -> None:
    result = terminal.run("get", TOPIC, "--server", "127.0.0.1:1", "--timeout", "10")
    assert result.exit_code == 5
    assert (
        result.stderr
        == "Error: No server listens at 127.0.0.1:1. Start one on this machine with topicpolicies serve, or name another with --server.\n"
    )


def test_an_unknown_outcome_is_exit_code_six_and_its_request_can_be_repeated(terminal: Terminal, proxy: Proxy) -> None:
    proxy.faults.extend([LOST] * 50)
    code, error = terminal.failing("update", TOPIC, "max_producer_per_topic=1", "--timeout", "0.3")
    assert code == 6
    assert proxy.met["UpdatePolicy"] > 0
    proxy.faults.clear()
    repeat = terminal.json("update", TOPIC, "max_producer_per_topic=1", "--request-id", error["request_id"])
    assert (repeat["replayed"], repeat["request_id"]) == (True, error["request_id"])
    assert terminal.json("get", TOPIC)["version"] == repeat["version"]
    assert (
        "Applied, as the first time"
        in terminal.run(*("update", TOPIC, "max_producer_per_topic=1"), "--request-id", error["request_id"]).stdout
    )


def test_a_repeated_update_shows_its_version_even_if_its_document_is_no_longer_known(terminal: Terminal) -> None:
    first = terminal.json("update", TOPIC, "max_producer_per_topic=1")
    terminal.json("update", TOPIC, "max_producer_per_topic=2")
    again = ("update", TOPIC, "max_producer_per_topic=1", "--request-id", first["request_id"])
    repeat = terminal.json(*again)
    assert "document" not in repeat
    assert (repeat["version"], repeat["replayed"]) == (first["version"], True)
    (line,) = terminal.run(*again).stdout.splitlines()
    assert line.startswith(f"Applied, as the first time: (version {first['version']}, ")


def test_every_violation_is_reported(terminal: Terminal, proxy: Proxy) -> None:
    refusal = Refusal(Code.INVALID_ARGUMENT, "A. B.", "BAD", violations=[("policies.x", "X", "A."), ("policies.y", "Y", "B.")])
    proxy.faults.extend([Fault(refusal)] * 2)
    result = terminal.run("update", TOPIC, "max_producer_per_topic=1")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == ["Error: there are 2 problems.", "  - policies.x: A.", "  - policies.y: B."]
    _, error = terminal.failing("update", TOPIC, "max_producer_per_topic=1")
    assert error["violations"] == [
        {"field": "policies.x", "reason": "X", "description": "A."},
        {"field": "policies.y", "reason": "Y", "description": "B."},
    ]


def test_an_invalid_value_is_refused_before_anything_is_sent(terminal: Terminal, proxy: Proxy) -> None:
    proxy.faults.append(Fault())
    result = terminal.run("update", TOPIC, "max_producer_per_topic=many")
    assert result.exit_code == 2
    assert result.stderr == 'Error: max_producer_per_topic takes a whole number, not "many".\n'
    assert len(proxy.faults) == 1


def test_an_update_of_nothing_is_refused(terminal: Terminal) -> None:
    code, error = terminal.failing("update", TOPIC)
    assert (code, error["reason"]) == (2, "USAGE") and "--unset FIELD" in error["message"]


@pytest.mark.parametrize(
    "arguments", [("bogus",), ("get",), ("get", "a/b/c", "--scope", "sideways"), ("get", "a/b/c", "--timeout", "never")]
)
def test_wrong_usage_is_exit_code_two_in_either_form(terminal: Terminal, arguments: tuple[str, ...]) -> None:
    assert terminal.run(*arguments).exit_code == 2
    code, error = terminal.failing(*arguments)
    assert (code, error["code"], error["reason"]) == (2, "INVALID_ARGUMENT", "USAGE")


def test_contradicting_options_are_wrong_usage(terminal: Terminal) -> None:
    for arguments in (
        ("delete", TOPIC, "--scope", "both"),
        ("get", TOPIC, "--scope", "both", "--as-of", "11"),
        ("get", TOPIC, "--tls-certificate", "x"),
        ("get", TOPIC, "--no-tls", "--tls-server-name", "x"),
    ):
        code, error = terminal.failing(*arguments)
        assert (code, error["reason"]) == (2, "USAGE")


@pytest.mark.parametrize("option", ["--token-file", "--tls-ca", "--tls-certificate", "--tls-key"])
def test_a_missing_file_is_named_with_its_option(terminal: Terminal, option: str) -> None:
    both = ("--tls-key", "/dev/null") if option == "--tls-certificate" else ("--tls-certificate", "/dev/null")
    beside = both if option in ("--tls-certificate", "--tls-key") else ()
    code, error = terminal.failing("get", TOPIC, option, "no-such.pem", *beside)
    assert (code, error["reason"]) == (2, "USAGE")
    assert option in error["message"] and "'no-such.pem' does not exist" in error["message"]


def test_an_unreadable_file_is_named(terminal: Terminal) -> None:
    code, error = terminal.failing("get", TOPIC, "--tls-ca", "/")
    assert code == 1
    assert error["message"] == "/: Is a directory"


@pytest.mark.parametrize("server", ["localhost:99999", "localhost:0", "localhost:many", "[::1]:70000", "127.0.0.1:1,127.0.0.1:99999", "a:"])
def test_an_address_with_an_invalid_port_is_wrong_usage(terminal: Terminal, server: str) -> None:
    code, error = terminal.failing("get", TOPIC, "--server", server)
    assert (code, error["reason"]) == (2, "USAGE")
    assert "from 1 to 65535" in error["message"] and "--server" in error["message"]


@pytest.mark.parametrize("server", ["[::1]:1", "::1", "dns:localhost:1", "ipv4:127.0.0.1:1", "dns:///localhost:1", "unix:/no/such:99999"])
def test_an_address_with_a_valid_port_is_tried(terminal: Terminal, server: str) -> None:
    assert terminal.run("get", TOPIC, "--server", server, "--no-tls", "--timeout", "0.2").exit_code == 5


def test_an_unknown_host_name_is_reported_as_such(terminal: Terminal) -> None:
    result = terminal.run("get", TOPIC, "--server", "no-such-host.invalid:6680", "--timeout", "2")
    assert result.exit_code == 5
    assert result.stderr == (
        "Error: The host name of the server at no-such-host.invalid:6680 can't be resolved."
        " Name it with --server or TOPICPOLICIES_SERVER.\n"
    )


def test_delete_reports_whether_there_was_a_document(terminal: Terminal) -> None:
    version = terminal.json("update", TOPIC, "max_producer_per_topic=1")["version"]
    assert terminal.json("delete", TOPIC, "--scope", "global")["outcome"] == "CHANGE_OUTCOME_UNCHANGED"
    deleted = terminal.json("delete", TOPIC, "--if-version", version)
    assert (deleted["outcome"], deleted["previous_version"]) == ("CHANGE_OUTCOME_APPLIED", version)
    assert deleted["document"] == {"topic": TOPIC, "scope": "SCOPE_LOCAL", "version": deleted["version"]}
    result = terminal.run("delete", TOPIC)
    assert (result.exit_code, result.stdout) == (
        0,
        f"Unchanged: {TOPIC}  LOCAL  there was no document (version {deleted['version']}, before {deleted['version']})\n",
    )


def test_a_refused_delete_is_an_error(terminal: Terminal) -> None:
    version = terminal.json("update", TOPIC, "max_producer_per_topic=1")["version"]
    code, error = terminal.failing("delete", TOPIC, "--if-version", "0")
    assert (code, error["reason"], error["metadata"]["version"]) == (3, "PRECONDITION_FAILED", version)
    result = terminal.run("delete", TOPIC, "--if-version", "0")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("Error: ")


def test_list_shows_the_documents_of_all_pages(terminal: Terminal) -> None:
    names = [f"persistent://{A}/{number:03}" for number in range(250)]
    with Client(terminal.address) as client:
        list(client.batch(update_request(name, max_producer_per_topic=1) for name in reversed(names)))
    output = terminal.json("list", A)
    assert [document["topic"] for document in output["documents"]] == names
    assert output["resume_token"]
    shown = terminal.run("list", A)
    assert shown.stdout.count("max_producer_per_topic=1") == 250
    assert shown.stderr == f"250 documents in {A}\n"
    assert terminal.json("list", "public/empty")["documents"] == []


def test_a_bare_name_is_a_topic_of_public_default_or_a_namespace_of_public(recorded: Terminal) -> None:
    recorded.json("update", "orders", "max_producer_per_topic=5")
    topic = "persistent://public/default/orders"
    assert recorded.run("get-max-producers", "orders").stdout == "5\n"
    for command in ("get orders", "get public/default/orders", f"get {topic}", "diff orders now now", "list default", "history orders",
                    "watch orders --until-synced", "export default"):  # fmt: skip
        assert topic in recorded.run(*command.split()).stdout


def test_times_and_sizes_are_shown_with_units_to_people_and_as_numbers_to_programs(terminal: Terminal) -> None:
    terminal.json("update", TOPIC, "message_ttl_in_seconds=5400")
    changed = terminal.run("update", TOPIC, "message_ttl_in_seconds=3h", "max_message_size=1000")
    assert "message_ttl_in_seconds  90m -> 3h" in changed.stdout and "max_message_size        unset -> 1000B" in changed.stdout
    assert "message_ttl_in_seconds  3h" in terminal.run("get", TOPIC).stdout
    sizes = "retention_policies.retention_size_in_mb=1536"
    terminal.run("update", f"{A}/raw", "message_ttl_in_seconds=90", "retention_policies.retention_time_in_minutes=90", sizes)
    assert [line.split()[-1] for line in terminal.run("get", f"{A}/raw").stdout.splitlines()[1:]] == ["90s", "1536M", "90m"]
    assert terminal.json("get", TOPIC)["policies"] == {"message_ttl_in_seconds": 10800, "max_message_size": 1000}


def test_info_shows_the_log_and_the_writers_of_the_server(recorded: Terminal) -> None:
    output = recorded.json("info")
    assert (output["log"], output["writer_mode"]) == ("LOG_KIND_EMBEDDED", "WRITER_MODE_SOLE")
    shown = dict(rows(recorded.run("info").stdout))
    assert shown["version"] == output["version"]
    assert shown["log"].startswith("embedded") and shown["writers"].startswith("sole")


def test_the_version_is_shown_by_command_and_option_in_both_forms(terminal: Terminal) -> None:
    assert terminal.run("version").stdout.startswith("topicpolicies ")
    assert set(terminal.json("version")) == {"version"}
    assert terminal.run("--version").stdout == terminal.run("version").stdout
    assert terminal.json("--version") == terminal.json("version")
    assert terminal.failing("delete", "--version")[0] == 2, "no topic is called so"


@pytest.mark.parametrize("command", ["get", "update", "delete", "list", "watch", "info", "health", "serve", "demo"])
def test_every_command_has_examples(terminal: Terminal, command: str) -> None:
    shown = terminal.run(command, "--help").stdout
    assert f"\n    topicpolicies {command}" in shown
