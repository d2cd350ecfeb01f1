"""plan, apply and export against a real server."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from tests.access.signing import SECRET, token
from tests.cli.conftest import Terminal
from tests.cli.faults import Fault, Proxy
from tests.cli.real_server import running
from tests.client.statuses import BROKEN, Code, Refusal
from topicpolicies import Client
from topicpolicies_server.cli import apply
from topicpolicies_server.cli.app import app
from topicpolicies_server.config import AuthenticationConfig, AuthorizationConfig
from topicpolicies_server.config.callers import TokenConfig

NAMESPACE = "public/a"
ORDERS = f"persistent://{NAMESPACE}/orders"
OFFLOAD = (
    "{{managed_ledger_offload_driver: aws-s3, managed_ledger_offload_bucket: b, managed_ledger_offload_region: r,"
    " s3_managed_ledger_offload_credential_secret: {}}}"
)


def topic(name: str) -> str:
    return f"persistent://{NAMESPACE}/{name}"


class Workspace:
    """A terminal, and a file of declared policies."""

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
        return {each["topic"]: each["version"] for each in self.terminal.json("list", NAMESPACE)["documents"]}

    def events(self) -> int:
        return len(self.terminal.run("history", NAMESPACE, "--limit", "1000", "-o", "json").stdout.splitlines())


@pytest.fixture
def workspace(tmp_path: Path, proxy: Proxy) -> Iterator[Workspace]:
    with running(tmp_path, proxy=proxy) as address:
        yield Workspace(Terminal(address), tmp_path / "policies.yaml")


def test_plan_shows_the_differences_and_writes_nothing(workspace: Workspace) -> None:
    workspace.terminal.json("update", topic("orders"), "max_producer_per_topic=1", "message_ttl_in_seconds=60")
    workspace.declare("{topic: public/a/orders, set: {max_producer_per_topic: 2, message_ttl_in_seconds: null, compaction_threshold: 9}}")
    before = workspace.events()
    result = workspace.run("plan")
    assert result.exit_code == 7
    rows = [line.split() for line in result.stdout.splitlines() if line[:1] in "+-~"]
    assert [[sign, name, was, is_] for sign, name, was, _, is_ in rows] == [
        ["+", "compaction_threshold", "unset", "9B"],
        ["~", "max_producer_per_topic", "1", "2"],
        ["-", "message_ttl_in_seconds", "1m", "unset"],
    ]
    (step,) = workspace.json("plan")["steps"]
    assert (step["topic"], step["scope"], step["action"]) == (topic("orders"), "LOCAL", "update")
    assert {each["path"]: each["before"] for each in step["differences"]}["message_ttl_in_seconds"] == 60
    assert step["update_mask"] == ["compaction_threshold", "max_producer_per_topic", "message_ttl_in_seconds"]
    assert workspace.events() == before == 1


def test_differences_are_coloured_on_a_terminal(workspace: Workspace) -> None:
    workspace.declare("{topic: public/a/orders, set: {max_producer_per_topic: 2}}")
    arguments = ["plan", "-f", str(workspace.file)]
    assert "\x1b[32m" in CliRunner(env=workspace.terminal.environment).invoke(app, arguments, color=True).stdout


def test_after_apply_plan_shows_no_differences_and_a_second_apply_writes_nothing(workspace: Workspace) -> None:
    workspace.declare(
        "{topic: public/a/orders, set: {max_producer_per_topic: 2, dispatch_rate: {dispatch_throttling_rate_in_msg: 5}}}",
        "{topic: public/a/orders, scope: global, set: {max_producer_per_topic: 3, subscription_types_enabled: [shared, failover]}}",
        "{topic: public/a/empty, set: {subscription_policies: {nobody: {}}, entry_filters: null}}",
        f"{{topic: public/a/secret, set: {{offload_policies: {OFFLOAD.format('hush')}}}}}",
    )
    done = workspace.json("apply")["done"]
    assert {each["topic"] for each in done} == {topic("orders"), topic("secret")}
    events = workspace.events()
    again = workspace.run("plan")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "as declared" in again.stderr
    assert workspace.json("apply") == {"done": [], "failed": [], "not_sent": []}
    assert workspace.events() == events == 3


def test_a_file_with_refused_entries_names_them_and_changes_nothing(workspace: Workspace) -> None:
    workspace.declare(
        "{topic: public/a/good, set: {max_producer_per_topic: 2}}",
        "{topic: public/a/half, set: {retention_policies: {retention_time_in_minutes: 5}}}",
        "{topic: public/a/marked, set: {offload_policies: " + OFFLOAD.format("'********'") + "}}",
    )
    for command in ("plan", "apply"):
        result = workspace.run(command)
        assert result.exit_code == 2
        assert topic("half") in result.stderr
        assert topic("marked") in result.stderr
        assert topic("good") not in result.stderr
        assert "Nothing was changed." in result.stderr
        assert (topic("good") in result.stdout) is (command == "plan"), "what is accepted is shown too"
        report = json.loads(workspace.run(command, "-o", "json").stderr)["error"]
        assert [each["error"]["violations"][0]["reason"] for each in report["refused"]] == ["HALF_OBJECT", "REDACTED_SECRET"]
        assert (report["code"], report["message"]) == ("INVALID_ARGUMENT", "The server refuses 2 changes; nothing was changed.")
    assert workspace.versions() == {}


def test_an_invalid_or_missing_file_is_wrong_usage(workspace: Workspace) -> None:
    workspace.declare("{topic: public/a/orders, set: {max_producer: 2}}")
    result = workspace.run("apply")
    assert result.exit_code == 2
    assert "max_producer" in result.stderr
    assert workspace.terminal.run("apply", "-f", str(workspace.file.with_name("none.yaml"))).exit_code == 2


def test_apply_makes_one_update_for_each_document_that_differs(workspace: Workspace) -> None:
    workspace.terminal.json("update", topic("one"), "max_producer_per_topic=1")
    workspace.declare("{pattern: public/a/*, set: {max_producer_per_topic: 2, compaction_threshold: 5}}", "{topic: public/a/two, set: {}}")
    assert workspace.run("apply").exit_code == 0
    lines = workspace.terminal.run("history", NAMESPACE, "-o", "json").stdout.splitlines()
    entries = [json.loads(line)["entry"] for line in lines[:2]]
    masks = {entry["document"]["topic"]: entry["origin"]["update_mask"] for entry in entries}
    assert masks == {name: ["compaction_threshold", "max_producer_per_topic"] for name in (topic("one"), topic("two"))}


def test_patterns_also_match_topics_of_the_given_list(workspace: Workspace, tmp_path: Path) -> None:
    workspace.declare("{pattern: public/a/orders-*, set: {max_producer_per_topic: 2}}")
    listed = tmp_path / "topics"
    listed.write_text('persistent://public/a/orders-1-partition-0\n"persistent://public/a/orders-1-partition-1"\n\npublic/a/invoices\n')
    planned = workspace.run("plan")
    assert (planned.exit_code, "persistent://public/a/orders-* matches no topic that is known.\n" in planned.stderr) == (0, True)
    assert "matches no" not in workspace.run("plan", "--topics", str(listed)).stderr
    assert [each["topic"] for each in workspace.json("apply", "--topics", str(listed))["done"]] == [topic("orders-1")]
    listed.write_text("a/nonsense\n")
    assert workspace.run("plan", "--topics", str(listed)).exit_code == 2


def test_a_name_alone_is_a_topic_of_public_default_in_files_too(workspace: Workspace, tmp_path: Path) -> None:
    workspace.declare("{topic: orders, set: {max_producer_per_topic: 2}}", "{pattern: bills-*, set: {max_producer_per_topic: 3}}")
    (tmp_path / "topics").write_text("bills-1\n")
    done = workspace.json("apply", "--topics", str(tmp_path / "topics"))["done"]
    assert [each["topic"] for each in done] == [f"persistent://public/default/{name}" for name in ("bills-1", "orders")]


def test_prune_clears_settings_and_deletes_documents_that_are_not_declared(workspace: Workspace) -> None:
    for name in ("kept", "dropped"):
        workspace.terminal.json("update", topic(name), "max_producer_per_topic=1", "message_ttl_in_seconds=60")
    workspace.declare("{topic: public/a/kept, set: {max_producer_per_topic: 1}}", namespaces="[public/a]")
    assert workspace.run("plan").exit_code == 0
    planned = workspace.json("plan", "--prune")["steps"]
    assert [(each["topic"], each["action"], each["update_mask"]) for each in planned] == [
        (topic("kept"), "update", ["message_ttl_in_seconds"]),
        (topic("dropped"), "delete", []),
    ]
    assert workspace.run("apply", "--prune").exit_code == 0
    assert set(workspace.versions()) == {topic("kept")}
    assert workspace.terminal.json("get", topic("kept"))["policies"] == {"max_producer_per_topic": 1}
    assert workspace.run("plan", "--prune").exit_code == 0


def test_an_exported_file_has_no_differences_and_restores_the_documents(workspace: Workspace) -> None:
    workspace.terminal.json("update", topic("one"), "max_producer_per_topic=1", "subscription_types_enabled=shared", "--scope", "global")
    workspace.terminal.json("update", topic("two"), "subscription_policies.`a.b`.dispatch_rate.dispatch_throttling_rate_in_msg=4")
    workspace.terminal.json("update", topic("two"), "offload_policies=" + json.dumps(YAML(typ="safe").load(OFFLOAD.format("hush"))))
    before = workspace.terminal.json("list", NAMESPACE)["documents"]
    printed = workspace.terminal.run("export", NAMESPACE)
    assert printed.exit_code == 0
    assert "hush" not in printed.stdout
    assert workspace.terminal.run("export", NAMESPACE, "-f", str(workspace.file)).exit_code == 0
    assert workspace.file.read_text() == printed.stdout
    assert workspace.run("plan", "--prune").exit_code == 0
    workspace.terminal.json("update", topic("one"), "max_producer_per_topic=7", "--scope", "global")
    workspace.terminal.json("update", topic("two"), "max_message_size=7")
    workspace.terminal.json("update", topic("three"), "max_message_size=7")
    assert workspace.run("apply", "--prune").exit_code == 0
    after = workspace.terminal.json("list", NAMESPACE)["documents"]
    assert [each | {"version": ""} for each in after] == [each | {"version": ""} for each in before]


def test_all_changes_go_in_batches_and_have_the_actor_and_the_reason(workspace: Workspace, proxy: Proxy) -> None:
    workspace.declare(*(f"{{topic: public/a/{number:03}, set: {{max_producer_per_topic: 2}}}}" for number in range(300)))
    assert len(workspace.json("apply", "--reason", "release 12")["done"]) == 300
    assert proxy.calls["BatchUpdatePolicies"] == 4, "one batch to validate, and 100 changes in each of the others"
    assert proxy.calls["UpdatePolicy"] == 0
    origins = [each["entry"]["origin"] for each in workspace.terminal.lines("history", NAMESPACE, "--limit", "1000")]
    assert {(origin["actor"], origin["reason"]) for origin in origins} == {("tests", "release 12")}


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allows one change a batch, so that it is certain which changes were not sent."""
    monkeypatch.setattr(apply, "BATCH", 1)


def before_step(patched: pytest.MonkeyPatch, step: str, action: Callable[[], object]) -> None:
    """Calls ``action`` right before apply starts a step: ``validated`` or ``make``."""
    proceed = getattr(apply, step)

    def late(*arguments: Any, **options: Any) -> Any:
        action()
        return proceed(*arguments, **options)

    patched.setattr(f"topicpolicies_server.cli.apply.{step}", late)


def changed_by_another(patched: pytest.MonkeyPatch, workspace: Workspace, *names: str, before: str = "make") -> None:
    """Has another client change topics after apply has read them, right before a step."""
    before_step(patched, before, lambda: [workspace.terminal.write(NAMESPACE, name, 9) for name in names])


def test_a_deletion_that_conflicts_is_refused_before_any_change_is_made(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.terminal.json("update", topic("dropped"), "max_producer_per_topic=1")
    workspace.declare("{topic: public/a/made, set: {max_producer_per_topic: 1}}", namespaces="[public/a]")
    changed_by_another(monkeypatch, workspace, "dropped", before="validated")
    result = workspace.run("apply", "--prune")
    assert result.exit_code == 3
    assert f"refused  {topic('dropped')}" in result.stderr and "Nothing was changed." in result.stderr
    assert set(workspace.versions()) == {topic("dropped")}


@pytest.mark.usefixtures("one_at_a_time")
def test_a_failure_reports_what_was_done_failed_and_not_sent_and_a_second_apply_completes_it(workspace: Workspace) -> None:
    workspace.declare(*(f"{{topic: public/a/{name}, set: {{max_producer_per_topic: 2}}}}" for name in ("a", "b", "c", "d")))
    with pytest.MonkeyPatch.context() as patched:
        changed_by_another(patched, workspace, "c")
        result = workspace.run("apply", "-o", "json")
    assert result.exit_code == 8
    report = json.loads(result.stdout)
    assert [each["topic"] for each in report["done"]] == [topic("a"), topic("b")]
    assert [(each["topic"], each["error"]["code"]) for each in report["failed"]] == [(topic("c"), "ABORTED")]
    assert [each["topic"] for each in report["not_sent"]] == [topic("d")]
    assert {each["version"] for each in report["done"]} <= set(workspace.versions().values())
    assert topic("d") not in workspace.versions()
    again = workspace.json("apply")
    assert [each["topic"] for each in again["done"]] == [topic("c"), topic("d")]
    assert workspace.run("plan").exit_code == 0


def test_changes_in_flight_during_a_failure_are_reported_with_their_own_results(workspace: Workspace) -> None:
    workspace.declare(*(f"{{topic: public/a/{name}, set: {{max_producer_per_topic: 2}}}}" for name in ("a", "b", "c", "d")))
    with pytest.MonkeyPatch.context() as patched:
        changed_by_another(patched, workspace, "a", "c")
        result = workspace.run("apply", "-o", "json")
    assert result.exit_code == 8
    report = json.loads(result.stdout)
    assert [each["topic"] for each in report["failed"]] == [topic("a"), topic("c")]
    assert [each["topic"] for each in report["done"]] == [topic("b"), topic("d")]
    assert report["not_sent"] == []
    assert workspace.run("apply").exit_code == 0


def test_nothing_is_deleted_once_an_update_has_failed(workspace: Workspace) -> None:
    workspace.terminal.json("update", topic("dropped"), "max_producer_per_topic=1")
    workspace.declare("{topic: public/a/kept, set: {max_producer_per_topic: 2}}", namespaces="[public/a]")
    with pytest.MonkeyPatch.context() as patched:
        changed_by_another(patched, workspace, "kept")
        result = workspace.run("apply", "--prune", "-o", "json")
    assert result.exit_code == 3, "nothing was changed"
    assert [each["topic"] for each in json.loads(result.stdout)["not_sent"]] == [topic("dropped")]
    assert topic("dropped") in workspace.versions()


@pytest.mark.usefixtures("one_at_a_time")
def test_the_output_for_people_lists_what_was_done_failed_and_not_sent(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.declare(*(f"{{topic: public/a/{name}, set: {{max_producer_per_topic: 2}}}}" for name in ("a", "b", "c")))
    changed_by_another(monkeypatch, workspace, "b")
    result = workspace.run("apply")
    assert result.exit_code == 8
    assert f"changed  {topic('a')}" in result.stdout
    assert f"failed    {topic('b')}" in result.stderr
    assert f"not sent  {topic('c')}" in result.stderr
    assert "1 done, 1 failed, 1 not sent" in result.stderr


@pytest.mark.usefixtures("one_at_a_time")
def test_an_unknown_outcome_is_reported_as_such_and_a_second_apply_completes_the_file(workspace: Workspace, proxy: Proxy) -> None:
    workspace.declare(*(f"{{topic: public/a/{name}, set: {{max_producer_per_topic: 2}}}}" for name in ("a", "b")))
    with pytest.MonkeyPatch.context() as patched:
        before_step(patched, "make", lambda: proxy.faults.extend([Fault(after=1)] * 50))  # the first change is made, and its result is lost
        result = workspace.run("apply", "--timeout", "0.5")
    assert result.exit_code == 8
    assert f"unknown   {topic('a')}" in result.stderr
    assert "1 unknown, 1 not sent" in result.stderr
    proxy.faults.clear()
    assert [each["topic"] for each in workspace.json("apply")["done"]] == [topic("b")]


@pytest.mark.parametrize(("refusal", "code"), [(Refusal(Code.PERMISSION_DENIED, "no"), 1), (BROKEN, 5)])
def test_a_service_that_fails_before_any_change_was_sent_is_reported_with_its_own_error(
    workspace: Workspace, proxy: Proxy, refusal: Refusal, code: int
) -> None:
    workspace.declare("{topic: public/a/one, set: {max_producer_per_topic: 2}}")
    proxy.faults.extend([Fault(refusal)] * 50)
    assert workspace.run("apply", "--timeout", "0.5").exit_code == code
    assert proxy.met["ListPolicies"]
    proxy.faults.clear()
    assert workspace.versions() == {}


def interrupting(monkeypatch: pytest.MonkeyPatch, *, after: int, number: int, stuck: bool) -> None:
    """Sends the process a signal after ``after`` results of changes that are not dry runs.

    If ``stuck``, the other results of the batch do not come, and the signal is repeated.
    """
    usual = Client.batch
    done = 0

    def batch(self: Client, changes: Iterable[Any], **options: Any) -> Iterator[Any]:
        nonlocal done
        for change, outcome in usual(self, changes, **options):
            yield change, outcome
            if not change.validate_only:
                done += 1
                if done == after:
                    os.kill(os.getpid(), number)
                    if stuck:
                        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
                        threading.Event().wait(60)

    monkeypatch.setattr(Client, "batch", batch)
    monkeypatch.setattr(apply, "BATCH", 2)


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """Gives signals their usual effect: test runs in the background ignore SIGINT, and every test run handles SIGTERM itself."""
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)
    terminated = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, terminated)


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("stuck", [False, True])
def test_an_interrupted_apply_reports_as_json_what_was_done_failed_and_not_sent(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, number: int, code: int, stuck: bool
) -> None:
    workspace.declare(*(f"{{topic: {topic(name)}, set: {{max_producer_per_topic: 1}}}}" for name in "abcdef"))
    interrupting(monkeypatch, after=3, number=number, stuck=stuck)
    result = workspace.run("apply", "--output", "json")
    assert result.exit_code == code
    report = json.loads(result.stdout)
    done, failed, not_sent = ([each["topic"] for each in report[part]] for part in ("done", "failed", "not_sent"))
    assert sorted([*done, *failed, *not_sent]) == [topic(name) for name in "abcdef"]
    assert len(done) >= 2 and not_sent
    assert bool(failed) is stuck
    assert all(each["error"]["request_id"] for each in report["failed"]), "the changes in flight"
    assert set(done) <= workspace.versions().keys() <= {*done, *failed}
    monkeypatch.undo()
    assert workspace.run("apply").exit_code == 0


def test_the_example_of_the_documentation_can_be_planned_and_applied(terminal: Terminal) -> None:
    example = str(Path(__file__).parents[2] / "docs" / "policies.yaml")
    note = "persistent://public/default/orders-* matches no topic that is known.\n"
    planned = terminal.run("plan", "-f", example)
    assert (planned.exit_code, planned.stderr) == (7, f"{note}1 document is not as declared.\n")
    applied = terminal.run("apply", "-f", example)
    assert (applied.exit_code, applied.stderr) == (0, f"{note}1 document is not as declared.\n1 document changed\n")
    assert terminal.run("plan", "-f", example).exit_code == 0


def test_what_another_owner_declared_is_not_changed_unless_forced(recorded: Terminal, tmp_path: Path) -> None:
    def declare(owner: str, *lines: str) -> str:
        path = tmp_path / f"{owner or 'nobody'}.yaml"
        head = ["version: 1", *([f"owner: {owner}"] if owner else []), "policies:", f"  - topic: {ORDERS}", "    set:"]
        path.write_text("\n".join([*head, *(f"      {line}" for line in lines)]) + "\n")
        return str(path)

    assert recorded.run("apply", declare("payments", "max_producer_per_topic: 5", "compaction_threshold: 9")).exit_code == 0
    assert "as payments declares" in recorded.run("history", ORDERS).stdout
    recorded.json("update", ORDERS, "max_producer_per_topic=6")  # an update of nobody's takes it from nobody
    for owner in ("platform", ""):
        other = declare(owner, "max_producer_per_topic: 7", "message_ttl_in_seconds: 60")
        code, error = recorded.failing("apply", other)
        assert code == 3
        (refused,) = error["refused"]
        assert refused["error"]["reason"] == "OWNED_BY_OTHER"
        assert [each["field"] for each in refused["error"]["violations"]] == ["max_producer_per_topic"]
        assert "payments declared max_producer_per_topic; apply --force" in recorded.run("apply", other).stderr
        assert "message_ttl_in_seconds" not in recorded.json("get", ORDERS)["policies"], "a part was applied"
    assert recorded.run("apply", declare("platform", "message_ttl_in_seconds: 60")).exit_code == 0, "this is nobody's"
    assert recorded.run("apply", declare("platform", "max_producer_per_topic: 7"), "--force").exit_code == 0
    assert recorded.failing("apply", declare("payments", "max_producer_per_topic: 5"))[0] == 3, "it is platform's now"
    recorded.json("delete", ORDERS)
    assert recorded.run("apply", declare("payments", "max_producer_per_topic: 5")).exit_code == 0, "a deletion ends all ownership"


def test_without_the_permission_to_read_the_history_a_file_is_planned_and_applied_with_a_note(tmp_path: Path) -> None:
    key, roles, declared, caller = (tmp_path / each for each in ("secret.key", "roles.toml", "policies.yaml", "token"))
    key.write_bytes(SECRET)
    caller.write_text(token(sub="team"))
    roles.write_text('[[grants]]\nroles = ["team"]\nnamespaces = ["*"]\npermissions = ["change"]\n')
    tokens = AuthenticationConfig(token=TokenConfig(secret_key_file=key))
    with running(tmp_path, authentication=tokens, authorization=AuthorizationConfig(file=roles)) as address:
        terminal = Terminal(address)
        terminal.environment["TOPICPOLICIES_TOKEN_FILE"] = str(caller)
        for value in (1, 2):
            declared.write_text(f"version: 1\npolicies:\n  - topic: {ORDERS}\n    set: {{max_producer_per_topic: {value}}}\n")
            planned, applied = terminal.run("plan", str(declared)), terminal.run("apply", str(declared))
            assert (planned.exit_code, applied.exit_code) == (7, 0), applied.stderr
            note = f"What other owners have declared in {NAMESPACE} is not known: "
            assert [note in each.stderr for each in (planned, applied)] == [value == 2] * 2, "a value that is there may be another owner's"


def test_a_file_with_only_constraints_is_told_as_one(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "constraints.yaml"
    path.write_text("version: 1\nconstraints: [{pattern: public/a/*, fields: {max_producer_per_topic: {max: 5}}}]\n")
    planned = terminal.run("plan", str(path))
    assert planned.exit_code == 0 and "serve --declared keeps them" in planned.stderr


def test_times_and_sizes_are_exported_with_units_and_to_programs_as_numbers(terminal: Terminal) -> None:
    terminal.json("update", ORDERS, "message_ttl_in_seconds=3h", "compaction_threshold=10G", "max_producer_per_topic=60")
    exported = terminal.run("export", NAMESPACE).stdout
    assert "message_ttl_in_seconds: 3h" in exported and "compaction_threshold: 10G" in exported and "max_producer_per_topic: 60" in exported
    (entry,) = terminal.json("export", NAMESPACE)["policies"]
    assert entry["set"] == {"compaction_threshold": 10 << 30, "max_producer_per_topic": 60, "message_ttl_in_seconds": 10_800}


def test_files_of_several_owners_are_not_applied_together(recorded: Terminal, tmp_path: Path) -> None:
    for owner in ("a", "b"):
        (tmp_path / f"{owner}.yaml").write_text(f"version: 1\nowner: {owner}\npolicies: []\n")
    code, error = recorded.failing("plan", str(tmp_path))
    assert code == 2
    assert [each["reason"] for each in error["violations"]] == ["SEVERAL_OWNERS"]


def test_plan_and_diff_have_terraforms_exit_codes_if_asked(recorded: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "policies.yaml"
    path.write_text(f"version: 1\npolicies:\n  - topic: {ORDERS}\n    set: {{max_producer_per_topic: 5}}\n")
    plan = ("plan", str(path), "--detailed-exitcode")
    first = recorded.json("update", ORDERS, "max_producer_per_topic=4")["version"]
    assert recorded.run(*plan).exit_code == 2
    assert recorded.run("diff", ORDERS, first, "--detailed-exitcode").exit_code == 0
    assert recorded.run("apply", str(path)).exit_code == 0
    assert recorded.run(*plan).exit_code == 0
    assert recorded.run("diff", ORDERS, first, "--detailed-exitcode").exit_code == 2
    assert recorded.run("diff", ORDERS, "999999", "--detailed-exitcode").exit_code == 1
    path.write_text("version: 2\n")
    assert recorded.run(*plan).exit_code == 1
