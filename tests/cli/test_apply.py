"""plan, apply and export against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode
from ruamel.yaml import YAML
from typer.testing import Result

from tests.cli.conftest import Background, Terminal
from tests.cli.real_server import running
from tests.client.fault_service import Fault
from tests.client.statuses import Code, Refusal
from topicpolicies import Client, Unavailable
from topicpolicies.errors import outcome_unknown

NAMESPACE = "public/a"
OFFLOAD = (
    "{{managed_ledger_offload_driver: aws-s3, managed_ledger_offload_bucket: b, managed_ledger_offload_region: r,"
    " s3_managed_ledger_offload_credential_secret: {}}}"
)


def topic(name: str) -> str:
    return f"persistent://{NAMESPACE}/{name}"


class Shop:
    """A terminal with a file of declared policies."""

    def __init__(self, terminal: Terminal, file: Path) -> None:
        self.terminal = terminal
        self.file = file

    def declare(self, *entries: str, namespaces: str = "[]") -> None:
        self.file.write_text("\n".join(["version: 1", f"namespaces: {namespaces}", "policies:", *(f"  - {entry}" for entry in entries)]))

    def run(self, command: str, *options: str) -> Result:
        return self.terminal.run(command, "-f", str(self.file), *options)

    def json(self, command: str, *options: str) -> Any:
        return json.loads(self.run(command, *options, "--output", "json").stdout)

    def versions(self) -> dict[str, str]:
        return {each["topic"]: each["version"] for each in self.terminal.json("list", NAMESPACE)["entries"]}

    def events(self) -> int:
        return len(self.terminal.run("history", NAMESPACE, "--limit", "1000", "-o", "json").stdout.splitlines())


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with running(tmp_path) as address:
        yield Shop(Terminal(address), tmp_path / "policies.yaml")


def test_plan_shows_the_difference_and_writes_nothing(shop: Shop) -> None:
    shop.terminal.json("update", topic("orders"), "max_producer_per_topic=1", "message_ttl_in_seconds=60")
    shop.declare("{topic: public/a/orders, set: {max_producer_per_topic: 2, message_ttl_in_seconds: null, compaction_threshold: 9}}")
    before = shop.events()
    result = shop.run("plan")
    assert result.exit_code == 7
    rows = [line.strip("│ ").split() for line in result.stdout.splitlines() if line.startswith("│")]
    assert [[sign, name, was, is_] for sign, _, name, _, was, _, is_ in rows] == [
        ["+", "compaction_threshold", "unset", "9"],
        ["~", "max_producer_per_topic", "1", "2"],
        ["-", "message_ttl_in_seconds", "60", "unset"],
    ]
    (step,) = shop.json("plan")["steps"]
    assert (step["topic"], step["scope"], step["action"]) == (topic("orders"), "LOCAL", "update")
    assert step["update_mask"] == ["compaction_threshold", "max_producer_per_topic", "message_ttl_in_seconds"]
    assert shop.events() == before == 1


def test_the_difference_is_coloured_on_a_terminal(shop: Shop) -> None:
    shop.declare("{topic: public/a/orders, set: {max_producer_per_topic: 2}}")
    shop.terminal.environment |= {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    assert "\x1b[32m" in shop.run("plan").stdout


def test_plan_on_an_unchanged_system_prints_no_difference_and_apply_twice_writes_nothing(shop: Shop) -> None:
    shop.declare(
        "{topic: public/a/orders, set: {max_producer_per_topic: 2, dispatch_rate: {dispatch_throttling_rate_in_msg: 5}}}",
        "{topic: public/a/orders, scope: global, set: {max_producer_per_topic: 3, subscription_types_enabled: [shared, failover]}}",
        "{topic: public/a/empty, set: {subscription_policies: {nobody: {}}, entry_filters: null}}",
        f"{{topic: public/a/secret, set: {{offload_policies: {OFFLOAD.format('hush')}}}}}",
    )
    done = shop.json("apply")["done"]
    assert {each["topic"] for each in done} == {topic("orders"), topic("secret")}
    events = shop.events()
    again = shop.run("plan")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "as declared" in again.stderr
    assert shop.json("apply") == {"done": []}
    assert shop.events() == events == 3


def test_apply_of_a_file_of_which_one_entry_is_refused_changes_nothing(shop: Shop) -> None:
    shop.declare(
        "{topic: public/a/good, set: {max_producer_per_topic: 2}}",
        "{topic: public/a/half, set: {retention_policies: {retention_time_in_minutes: 5}}}",
        "{topic: public/a/marked, set: {offload_policies: " + OFFLOAD.format("'********'") + "}}",
    )
    for command in ("plan", "apply"):
        result = shop.run(command)
        assert result.exit_code == 2
        assert topic("half") in result.stderr
        assert topic("marked") in result.stderr
        assert topic("good") not in result.stderr
        assert "Nothing was changed." in result.stderr
        told = json.loads(shop.run(command, "-o", "json").stderr)["error"]
        assert [each["error"]["reason"] for each in told["refused"]] == ["HALF_OBJECT", "REDACTED_SECRET"]
    assert shop.versions() == {}


def test_a_file_that_is_wrong_is_refused_with_its_lines(shop: Shop) -> None:
    shop.declare("{topic: public/a/orders, set: {max_producer: 2}}")
    result = shop.run("apply")
    assert result.exit_code == 2
    assert "max_producer" in result.stderr
    assert shop.terminal.run("apply", "-f", str(shop.file.with_name("none.yaml"))).exit_code == 1


def test_one_update_for_each_document_on_the_version_that_was_read(shop: Shop) -> None:
    shop.terminal.json("update", topic("one"), "max_producer_per_topic=1")
    shop.declare("{pattern: public/a/*, set: {max_producer_per_topic: 2, compaction_threshold: 5}}", "{topic: public/a/two, set: {}}")
    assert shop.run("apply").exit_code == 0
    lines = shop.terminal.run("history", NAMESPACE, "-o", "json").stdout.splitlines()
    masks = {each["entry"]["topic"]: each["entry"]["update_mask"] for each in map(json.loads, lines[:2])}
    assert masks == {name: ["compaction_threshold", "max_producer_per_topic"] for name in (topic("one"), topic("two"))}


def test_patterns_match_topics_that_are_listed(shop: Shop, tmp_path: Path) -> None:
    shop.declare("{pattern: public/a/orders-*, set: {max_producer_per_topic: 2}}")
    listed = tmp_path / "topics"
    listed.write_text('persistent://public/a/orders-1-partition-0\n"persistent://public/a/orders-1-partition-1"\n\npublic/a/invoices\n')
    assert shop.run("plan").exit_code == 0
    assert [each["topic"] for each in shop.json("apply", "--topics", str(listed))["done"]] == [topic("orders-1")]
    listed.write_text("nonsense\n")
    assert shop.run("plan", "--topics", str(listed)).exit_code == 2


def test_prune_clears_and_deletes_what_is_no_longer_declared(shop: Shop) -> None:
    for name in ("kept", "dropped"):
        shop.terminal.json("update", topic(name), "max_producer_per_topic=1", "message_ttl_in_seconds=60")
    shop.declare("{topic: public/a/kept, set: {max_producer_per_topic: 1}}", namespaces="[public/a]")
    assert shop.run("plan").exit_code == 0
    planned = shop.json("plan", "--prune")["steps"]
    assert [(each["topic"], each["action"], each["update_mask"]) for each in planned] == [
        (topic("kept"), "update", ["message_ttl_in_seconds"]),
        (topic("dropped"), "delete", []),
    ]
    assert shop.run("apply", "--prune").exit_code == 0
    assert set(shop.versions()) == {topic("kept")}
    assert shop.terminal.json("get", topic("kept"))["policies"] == {"max_producer_per_topic": 1}
    assert shop.run("plan", "--prune").exit_code == 0


def test_what_is_exported_is_as_declared_and_rebuilds_what_was_there(shop: Shop, tmp_path: Path) -> None:
    shop.terminal.json("update", topic("one"), "max_producer_per_topic=1", "subscription_types_enabled=shared", "--scope", "global")
    shop.terminal.json("update", topic("two"), "subscription_policies.`a.b`.dispatch_rate.dispatch_throttling_rate_in_msg=4")
    shop.terminal.json("update", topic("two"), "offload_policies=" + json.dumps(YAML(typ="safe").load(OFFLOAD.format("hush"))))
    before = shop.terminal.json("list", NAMESPACE)["entries"]
    printed = shop.terminal.run("export", NAMESPACE)
    assert printed.exit_code == 0
    assert "hush" not in printed.stdout
    assert shop.terminal.run("export", NAMESPACE, "-f", str(shop.file)).exit_code == 0
    assert shop.file.read_text() == printed.stdout
    assert shop.run("plan", "--prune").exit_code == 0
    shop.terminal.json("update", topic("one"), "max_producer_per_topic=7", "--scope", "global")
    shop.terminal.json("update", topic("two"), "max_message_size=7")
    shop.terminal.json("update", topic("three"), "max_message_size=7")
    assert shop.run("apply", "--prune").exit_code == 0
    after = shop.terminal.json("list", NAMESPACE)["entries"]
    assert [each | {"version": ""} for each in after] == [each | {"version": ""} for each in before]


@pytest.fixture
def broken_shop(terminal: Terminal, tmp_path: Path) -> Shop:
    """On the service that breaks on request."""
    shop = Shop(terminal, tmp_path / "policies.yaml")
    shop.declare(*(f"{{topic: public/a/{name}, set: {{max_producer_per_topic: 2}}}}" for name in ("one", "two", "three")))
    return shop


def test_a_failure_half_way_says_exactly_what_was_done_and_again_completes_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.declare(*(f"{{topic: public/a/{name}, set: {{max_producer_per_topic: 2}}}}" for name in ("a", "b", "c", "d")))
    update, calls = Client.update, []

    def interfering(self: Client, name: str, *arguments: Any, **options: Any) -> Any:
        calls.append(name)
        if len(calls) == 3:
            with Client(shop.terminal.environment["TOPICPOLICIES_SERVER"]) as other:
                update(other, name, max_message_size=1)
        return update(self, name, *arguments, **options)

    monkeypatch.setattr(Client, "update", interfering)
    result = shop.run("apply", "-o", "json")
    assert result.exit_code == 8
    told = json.loads(result.stdout)
    assert [each["topic"] for each in told["done"]] == [topic("a"), topic("b")]
    assert (told["failed"]["topic"], told["failed"]["error"]["code"]) == (topic("c"), "ABORTED")
    assert [each["topic"] for each in told["not_sent"]] == [topic("d")]
    assert calls == [topic("a"), topic("b"), topic("c")]
    assert {each["version"] for each in told["done"]} <= set(shop.versions().values())
    again = shop.json("apply")
    assert [each["topic"] for each in again["done"]] == [topic("c"), topic("d")]
    assert shop.run("plan").exit_code == 0


def test_people_are_told_what_was_done_and_what_was_not(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.declare(*(f"{{topic: public/a/{name}, set: {{max_producer_per_topic: 2}}}}" for name in ("a", "b", "c")))
    update = Client.update

    def failing(self: Client, name: str, *arguments: Any, **options: Any) -> Any:
        return update(self, name, *arguments, **(options | {"etag": "zz"} if name == topic("b") else options))

    monkeypatch.setattr(Client, "update", failing)
    result = shop.run("apply")
    assert result.exit_code == 8
    assert f"changed  {topic('a')}" in result.stdout
    assert f"failed   {topic('b')}" in result.stderr
    assert f"not sent  {topic('c')}" in result.stderr
    assert "1 done, 1 failed, 1 not sent" in result.stderr


def test_an_update_whose_outcome_is_unknown_is_told_as_such_and_again_completes_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.declare(*(f"{{topic: public/a/{name}, set: {{max_producer_per_topic: 2}}}}" for name in ("a", "b")))
    update = Client.update

    def unanswered(self: Client, name: str, *arguments: Any, **options: Any) -> Any:
        update(self, name, *arguments, **options)
        raise outcome_unknown(Unavailable("the connection broke", code=StatusCode.UNAVAILABLE), "an id")

    monkeypatch.setattr(Client, "update", unanswered)
    result = shop.run("apply")
    assert result.exit_code == 8
    assert f"unknown   {topic('a')}" in result.stderr
    assert "0 done, 1 unknown, 1 not sent" in result.stderr
    monkeypatch.setattr(Client, "update", update)
    assert [each["topic"] for each in shop.json("apply")["done"]] == [topic("b")]


def test_a_service_that_breaks_before_anything_was_sent_is_an_error_of_its_own(broken_shop: Shop, background: Background) -> None:
    background.service.faults.append(Fault(Refusal(Code.PERMISSION_DENIED, "no")))
    assert broken_shop.run("apply").exit_code == 1
    assert background.service.met
    assert not background.service.documents
