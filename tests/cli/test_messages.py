"""Errors name what a user of the command line writes: options and arguments, not the fields of requests."""

from __future__ import annotations

import json

import pytest
from grpc import StatusCode

from tests.cli.conftest import TOPIC, A, Terminal
from tests.cli.faults import Fault, Proxy
from tests.client.statuses import Code, Refusal
from topicpolicies import DeadlineExceeded, OutcomeUnknown, Unavailable
from topicpolicies_server.core.chains.request import unknown_outcome


@pytest.mark.parametrize(
    ("arguments", "said", "reason"),
    [
        (("update", TOPIC), "FIELD=VALUE to set, --unset FIELD to clear", "USAGE"),
        (("update", TOPIC, "max_message_size=5", "--must-not-exist", "--if-version", "1"), "this or --if-version, not both", "USAGE"),
        (("get", TOPIC, "--tls-key", "/dev/null"), "belong together", "USAGE"),
        (("get",), "Missing argument 'TOPIC'", "USAGE"),
        (("list",), "Missing argument 'NAMESPACE'", "USAGE"),
        (("watch", A, "--mode", "some"), ": 'some' is not one of 'latest', 'every'", "USAGE"),
    ],
)
def test_wrong_usage_is_told_in_the_words_of_the_command_line(
    terminal: Terminal, arguments: tuple[str, ...], said: str, reason: str
) -> None:
    told = terminal.run(*arguments)
    assert (told.exit_code, "Value error" in told.stderr, "Invalid value:" in told.stderr) == (2, False, False)
    assert said in told.stderr
    code, error = terminal.failing(*arguments)
    assert (code, error["reason"]) == (2, reason)


def test_a_choice_that_there_is_not_is_told_with_those_that_there_are(terminal: Terminal) -> None:
    told = terminal.run("get", TOPIC, "--output", "xml")
    assert told.exit_code == 2
    assert told.stderr.endswith("Invalid value for '--output' / '-o': 'xml' is not one of 'table', 'wide', 'json', 'yaml', 'name'.\n")


@pytest.mark.parametrize(
    ("variable", "wrong", "right"),
    [("TIMEOUT", "abc", ("--timeout", "5")), ("OUTPUT", "xml", ("-o", "json")), ("CLIENT_TLS", "perhaps", ("--no-tls",))],
)
def test_a_flag_precedes_a_wrong_variable_wherever_it_stands(terminal: Terminal, variable: str, wrong: str, right: tuple[str, ...]) -> None:
    terminal.environment[f"TOPICPOLICIES_{variable}"] = wrong
    for arguments in (("version", *right), (*right, "version")):
        assert terminal.run(*arguments).exit_code == 0, arguments
    told = terminal.run("version")
    assert told.exit_code == 2 and f"Invalid value for 'TOPICPOLICIES_{variable}': '{wrong}' is" in told.stderr


def test_variables_are_heeded_and_flags_before_the_command_precede_them(terminal: Terminal) -> None:
    terminal.environment["TOPICPOLICIES_OUTPUT"] = "json"
    assert terminal.run("version").stdout.startswith("{")
    assert terminal.run("--output", "yaml", "version").stdout.startswith("---")
    terminal.environment["TOPICPOLICIES_OUTPUT"] = "name"
    assert terminal.run("version").exit_code == 0, "only a flag is refused where there are no names"


@pytest.mark.parametrize("before", [(), ("-o", "json"), ("--output=json", "--reason", "help"), ("--no-tls",)])
def test_global_options_may_stand_before_version_and_help(terminal: Terminal, before: tuple[str, ...]) -> None:
    assert terminal.run(*before, "--version").stdout == terminal.run(*before, "version").stdout != ""
    assert terminal.run(*before, "help", "get").stdout == terminal.run("get", "--help").stdout
    assert terminal.run(*before, "help").stdout == terminal.run("--help").stdout


def test_an_option_that_there_is_not_is_told_in_the_form_that_is_chosen(terminal: Terminal) -> None:
    told = terminal.run("set-offload-policies", "-o", "json", TOPIC, "-orp", "x", "--nosuch")
    error = json.loads(told.stderr)["error"]
    assert (told.exit_code, error["reason"], error["message"]) == (2, "USAGE", "No such option: --nosuch")
    assert "--timeout" in terminal.run("get", TOPIC, "--timeou", "5").stderr


def test_a_server_that_does_not_answer_is_named_with_what_to_do(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object, **_extra: object) -> None:
        raise DeadlineExceeded("Deadline Exceeded", code=StatusCode.DEADLINE_EXCEEDED)

    monkeypatch.setattr("topicpolicies.Client.get", silent)
    told = terminal.run("get", TOPIC)
    assert told.exit_code == 5
    assert f"The server at {terminal.address} did not answer in time (--timeout)." in told.stderr
    assert f"topicpolicies doctor --server {terminal.address}" in told.stderr


@pytest.mark.parametrize("cause", ["failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: lost", "errors resolving a"])
def test_an_unknown_outcome_is_told_as_such_although_no_server_can_be_reached_meanwhile(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    def lost(*_: object, **_extra: object) -> None:
        raise OutcomeUnknown(f"It is not known whether the change was made: {cause}", code=StatusCode.UNAVAILABLE, request_id="7" * 32)

    monkeypatch.setattr("topicpolicies.Client.delete", lost)
    told = terminal.run("delete", TOPIC)
    assert told.exit_code == 6
    assert told.stderr.startswith("Error: It is not known whether the change was made: ")
    assert told.stderr.endswith(f"{cause}. To learn what happened, repeat it with --request-id {'7' * 32}.\n")
    code, error = terminal.failing("delete", TOPIC)
    assert (code, error["request_id"]) == (6, "7" * 32)


def test_a_server_that_does_not_know_the_outcome_is_told_once(terminal: Terminal, proxy: Proxy) -> None:
    said = unknown_outcome("")
    proxy.faults.append(Fault(Refusal(Code.DEADLINE_EXCEEDED, said.message, "OUTCOME_UNKNOWN")))
    told = terminal.run("delete", TOPIC, "--request-id", "7" * 32)
    assert told.exit_code == 6
    assert told.stderr == f"Error: The change may have been made: repeat it with --request-id {'7' * 32} to learn what happened.\n"


def test_names_of_topics_are_refused_where_there_are_none(terminal: Terminal) -> None:
    for command in (("get-retention", TOPIC), ("watch", A), ("version",)):
        told = terminal.run(*command, "-o", "name")
        assert told.exit_code == 2 and "prints no names of topics" in told.stderr


def test_why_no_server_can_be_reached_is_told_without_grpcs_words(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    told = terminal.run("info", "--server", "unix:/no/such", "--timeout", "10")
    assert told.stderr.startswith("Error: No server can be reached at unix:/no/such (No such file or directory). Name it")
    for words, said in (
        ("UNKNOWN: ipv4:127.0.0.1:1: connection attempt timed out", "connection attempt timed out"),
        ("UNKNOWN: ipv6:%5B::1%5D:1: Failed to connect to remote host: getsockopt(SO_ERROR): No route to host", "No route to host"),
    ):

        def silent(*_: object, why: str = words, **_extra: object) -> None:
            raise Unavailable(f"failed to connect to all addresses; last error: {why}", code=StatusCode.UNAVAILABLE)

        monkeypatch.setattr("topicpolicies.Client.get", silent)
        assert f"No server can be reached at {terminal.address} ({said}). Name it" in terminal.run("get", TOPIC).stderr


def test_what_listens_without_tls_or_without_grpc_is_told_whichever_address_of_the_host_failed_last(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = "UNKNOWN: ipv6:%5B::1%5D:1: Failed to connect to remote host: Connection refused"
    for words, option, said in (
        (refused, "--tls", "does not use TLS. Say --no-tls"),
        (refused, "--no-tls", "it may require TLS (--tls), or it is not a gRPC server"),
        ("UNAVAILABLE: ipv4:127.0.0.1:1: Failed parsing HTTP/2 (Expected SETTINGS)", "--no-tls", "is not a gRPC server"),
    ):

        def silent(*_: object, why: str = words, **_extra: object) -> None:
            raise Unavailable(f"failed to connect to all addresses; last error: {why}", code=StatusCode.UNAVAILABLE)

        monkeypatch.setattr("topicpolicies.Client.get", silent)
        assert said in terminal.run("get", TOPIC, option).stderr


@pytest.mark.parametrize("address", ["http://me:fish@host:1", "me:fish@host:1", "me:fish@host"])
@pytest.mark.parametrize("command", [("get", TOPIC), ("health",), ("doctor",)])
def test_a_password_in_the_address_of_a_server_is_refused_and_not_told(terminal: Terminal, command: tuple[str, ...], address: str) -> None:
    for form in ("table", "json"):
        told = terminal.run(*command, "--server", address, "--output", form)
        assert told.exit_code == 2 and "HOST:PORT" in told.stderr and "fish" not in told.output
