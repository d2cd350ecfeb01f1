"""The command line, and servers for it to call: one behind a proxy that breaks calls on request, and one with a history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.cli.faults import Proxy
from tests.cli.real_server import running
from topicpolicies import Client
from topicpolicies_server.cli.app import app

A = "public/a"
TOPIC = f"persistent://{A}/orders"


class Terminal:
    """Runs commands against a server, with the environment of a terminal."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.environment = {"TOPICPOLICIES_SERVER": address, "TOPICPOLICIES_ACTOR": "tests", "TERM": "dumb", "COLUMNS": "200"}

    def run(self, *arguments: str) -> Result:
        return CliRunner(env=self.environment).invoke(app, list(arguments))

    def json(self, *arguments: str) -> Any:
        """Runs a command that must succeed; returns its one JSON document."""
        result = self.run(*arguments, "--output", "json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def lines(self, *arguments: str) -> list[Any]:
        """Runs a command that must succeed; returns its lines of JSON."""
        result = self.run(*arguments, "--output", "json")
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    def failing(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """Runs a command that must fail; returns its exit code and its error."""
        result = self.run(*arguments, "--output", "json")
        assert result.exit_code != 0, result.output
        return result.exit_code, json.loads(result.stderr)["error"]

    def write(self, namespace: str, local: str, value: int | None) -> str:
        """Changes a topic or deletes its document, as another client; returns the version."""
        topic = f"persistent://{namespace}/{local}"
        with Client(self.address, actor="somebody") as client:
            if value is None:
                return client.delete(topic).version
            return client.update(topic, max_producer_per_topic=value).version


@pytest.fixture
def proxy() -> Proxy:
    """The proxy between ``terminal`` and its server, which breaks calls on request."""
    return Proxy()


@pytest.fixture
def terminal(proxy: Proxy) -> Iterator[Terminal]:
    with running(None, proxy=proxy) as address:
        yield Terminal(address)


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal of a server that keeps a history."""
    with running(tmp_path) as address:
        yield Terminal(address)
