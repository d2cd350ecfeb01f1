"""The effective command, with a server that reads the settings of its cluster from a file."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.promises.server_process import ServerProcess
from topicpolicies import SCOPE_GLOBAL, SCOPE_LOCAL, Client
from topicpolicies_server.cli.app import app

TOPIC = "persistent://acme/orders/one"
CLUSTER = """
cluster = "us"
[broker]
[namespaces."acme/orders"]
max_consumers_per_topic = 6
[namespaces."acme/off"]
properties = { __topic_policies_disabled = "true" }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with some documents."""
    home: Path = tmp_path_factory.mktemp("effective")
    (home / "cluster.toml").write_text(CLUSTER)
    process = ServerProcess(["--data", str(home / "policies.db"), "--cluster-file", str(home / "cluster.toml")], home / "server.log")
    try:
        asyncio.run(process.start())
        with Client(process.address) as client:
            client.update(
                TOPIC, {"max_producer_per_topic": 5, "subscription_policies.`my-sub`.dispatch_rate.dispatch_throttling_rate_in_msg": 9}
            )
            client.update(TOPIC, max_producer_per_topic=7, max_message_size=800, scope=SCOPE_GLOBAL)
        yield process.address
    finally:
        process.kill()


def run(server: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["--server", server, *arguments])


def rows(result: Result) -> dict[str, tuple[str, str]]:
    """Returns the value and the source of each setting."""
    assert result.exit_code == 0, result.output
    cells = [re.fullmatch(r"(.+?)  +(\S+)=(.*)", line) for line in result.stdout.splitlines()[1:]]
    return {each[2]: (each[3], each[1]) for each in cells if each is not None}


def test_every_value_is_shown_with_its_source(server: str) -> None:
    shown = rows(run(server, "effective", TOPIC))
    assert shown["max_producer_per_topic"] == ("5", "topic, local")
    assert shown["max_message_size"] == ("800B", "topic, global")
    assert shown["max_consumer_per_topic"] == ("6", "namespace")
    assert shown["max_unacked_messages_on_consumer"] == ("50000", "broker")
    assert shown["retention_policies.retention_size_in_mb"] == ("0", "broker")
    assert shown["subscription_policies.`my-sub`.dispatch_rate.dispatch_throttling_rate_in_msg"] == ("9", "topic, local")
    assert all(source for _, source in shown.values())


def test_the_heading_names_both_versions(server: str) -> None:
    with Client(server) as client:
        versions = [client.get(TOPIC, scope=scope).version for scope in (SCOPE_LOCAL, SCOPE_GLOBAL)]
    assert run(server, "effective", TOPIC).stdout.splitlines()[0] == f"{TOPIC}  local version {versions[0]}, global version {versions[1]}"


def test_json_has_the_policies_their_sources_and_both_versions(server: str) -> None:
    printed = json.loads(run(server, "effective", TOPIC, "--output", "json").stdout)
    assert printed["policies"]["max_producer_per_topic"] == 5
    assert {"path": "max_producer_per_topic", "source": "POLICY_SOURCE_TOPIC_LOCAL"} in printed["sources"]
    assert (printed["topic"], printed["local_version"] != printed["global_version"]) == (TOPIC, True)


def test_the_heading_says_that_the_topics_own_policies_are_disabled(server: str) -> None:
    result = run(server, "effective", "acme/off/one")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].endswith("its own policies are disabled")


def test_an_unknown_namespace_is_an_error(server: str) -> None:
    result = run(server, "effective", "acme/unknown/one")
    assert result.exit_code != 0
    assert "--cluster-file" in result.output
