"""The table of the admin API's endpoints, against requests and answers that were written by hand and measured on brokers."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Terminal
from tests.promises.broker.policy_case import NAMESPACE, SUBSCRIPTION, Case, Example, Scope, comparable
from tests.promises.broker.policy_cases import CASES
from tests.promises.broker.test_every_field import settings_of_every_field
from topicpolicies import TopicPolicies
from topicpolicies.values import ValueProblem
from topicpolicies_server.cli import broker_client
from topicpolicies_server.cli.endpoints import ENDPOINTS, path_of, read, request

EXAMPLES = [(case.in_namespace(NAMESPACE), example) for case in CASES for example in case.examples]
IDS = [f"{case.setting}-{number % 2}" for number, (case, _) in enumerate(EXAMPLES)]
every_example = pytest.mark.parametrize(("case", "example"), EXAMPLES, ids=IDS)


def test_every_setting_has_an_endpoint() -> None:
    assert set(ENDPOINTS) == {setting.partition("/")[0] for setting in settings_of_every_field()}


@every_example
def test_a_setting_is_set_and_removed_as_brokers_take_it(case: Case, example: Example) -> None:
    made, expected = request(case.setting, example.policies), case.setting_call(example, Scope.LOCAL)
    body = without_nulls(made.body, "limit")
    assert (made.method, "/".join(made.path), dict(made.query)) == (expected.method, expected.path, expected.query)
    assert body == without_nulls(expected.body, "limit") and type(body) is type(expected.body)
    removed, expected = request(case.setting, TopicPolicies()), case.removing_call(Scope.LOCAL)
    if case.removable:
        assert (removed.method, "/".join(removed.path), dict(removed.query)) == (expected.method, expected.path, expected.query)
    else:
        assert (removed.method, removed.body) == (case.method, False)


@every_example
def test_what_brokers_answer_is_read(case: Case, example: Example) -> None:
    name, _, key = case.setting.partition("/")
    endpoint = ENDPOINTS[name]
    assert "/".join(path_of(endpoint.read_at or endpoint.path, SUBSCRIPTION)) == case.reading_call(Scope.LOCAL).path
    assert endpoint.local_only is (Scope.GLOBAL not in case.scopes)
    answer = {key: example.json} if endpoint.read_at else example.json
    found = TopicPolicies()
    read(found, name, "" if endpoint.read_at else key, {**answer, "s3Driver": True} if name == "offload_policies" else answer)
    unset = endpoint.unset is not None and example.json == endpoint.unset
    assert comparable(found) == (TopicPolicies() if unset else comparable(example.policies))


@pytest.mark.parametrize("name", ENDPOINTS)
@pytest.mark.parametrize("answer", [None, {}, []], ids=repr)
def test_an_empty_answer_is_no_setting(name: str, answer: Any) -> None:
    found = TopicPolicies()
    read(found, name, "billing", answer)
    assert found == TopicPolicies()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("publish_rate", {"publishThrottlingRateInMsg": 1, "newer": 1}),
        ("schema_compatibility_strategy", "NEWER"),
        ("max_producer_per_topic", "1 page"),
        ("subscription_types_enabled", ["Shared", "Newer"]),
    ],
)
def test_what_this_version_does_not_know_is_not_left_out_silently(name: str, answer: Any) -> None:
    with pytest.raises(ValueProblem):
        read(TopicPolicies(), name, "", answer)


@pytest.mark.parametrize("url", ["broker", "pulsar://broker:6650", "http://broker"])
@pytest.mark.parametrize("command", [("export", "public/default"), ("plan", "docs/policies.yaml"), ("apply", "docs/policies.yaml")])
def test_what_is_no_address_of_an_admin_api_is_wrong_usage(command: tuple[str, ...], url: str) -> None:
    result = Terminal("localhost:1").run(*command, "--admin-url", url)
    assert result.exit_code == 2 and "--admin-url" in result.stderr


def test_the_token_of_the_admin_api_is_sent_and_no_other(tmp_path: Path) -> None:
    sent: list[str | None] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(self.headers["Authorization"])
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            pass

    (tmp_path / "admin").write_text("of-the-admin-api")
    (tmp_path / "server").write_text("of-a-server")
    with HTTPServer(("127.0.0.1", 0), Refusing) as brokers:
        threading.Thread(target=brokers.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{brokers.server_port}"
        options = ("--admin-url", url, "--admin-token-file", str(tmp_path / "admin"), "--token-file", str(tmp_path / "server"))
        result = Terminal("localhost:1").run("export", "public/default", *options)
        brokers.shutdown()
    assert result.exit_code == 5 and "answered 403" in result.stderr
    assert set(sent) == {"Bearer of-the-admin-api"}


class OldBroker(BaseHTTPRequestHandler):
    """Has one topic, with a single setting, and lacks the endpoint of another one."""

    def do_GET(self) -> None:
        answers = {
            "brokers/version": b'"4.0.0"',
            "brokers/configuration/runtime": b'{"clusterName": "c"}',
            "persistent/a/b": b'["persistent://a/b/t"]',
            "persistent/a/b/t/maxProducers": b"7",
        }
        path = self.path.removeprefix("/admin/v2/")
        self.send_response(404 if "subscriptionExpirationTime" in path else 200)
        body = b"" if "subscriptionExpirationTime" in path else answers.get(path, b"[]")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_an_endpoint_that_brokers_lack_is_told_and_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_client, "_READ_SECONDS", 0.0)
    file = tmp_path / "policies.yaml"
    file.write_text("{version: 1, policies: [{topic: a/b/t, set: {subscription_expiration_time_in_minutes: 5}}]}")
    with HTTPServer(("127.0.0.1", 0), OldBroker) as brokers:
        threading.Thread(target=brokers.serve_forever, daemon=True).start()
        options = ("--admin-url", f"http://127.0.0.1:{brokers.server_port}")
        exported = Terminal("localhost:1").run("export", "a/b", *options)
        planned = Terminal("localhost:1").run("plan", str(file), *options)
        brokers.shutdown()
    assert exported.exit_code == 0 and "max_producer_per_topic: 7" in exported.stdout
    assert exported.stderr.count("does not have subscription_expiration_time_in_minutes: it is left out") == 1
    assert planned.exit_code == 2 and "does not have subscription_expiration_time_in_minutes: leave it out" in planned.stderr


def without_nulls(value: Any, *others: str) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: without_nulls(each, *others) for name, each in value.items() if each is not None and name not in others}
