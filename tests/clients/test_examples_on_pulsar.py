"""The examples of all languages, run as their READMEs describe, against a server with a real broker."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from tests.broker.admin import Admin, AdminError
from tests.broker.pulsar_broker import Broker
from tests.clients.toolchains import go_program, java_program, run, typescript_program
from tests.java_build import example_jar
from tests.promises.server_process import ServerProcess

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(600)]

_ROOT = Path(__file__).parents[2]
_MISSING = "create it first"
"""A part of the error for a topic that does not exist."""


@pytest_asyncio.fixture
async def server_with_broker(broker: Broker, tmp_path: Path) -> AsyncIterator[ServerProcess]:
    """A server with a broker, with the options of the READMEs."""
    process = ServerProcess(["--pulsar", broker.service_url, "--admin-url", broker.admin_url], tmp_path / "server.log")
    await process.start()
    yield process
    process.kill()


def go() -> tuple[list[str], str]:
    return [str(go_program("example"))], _topic_to_create("go")


def typescript() -> tuple[list[str], str]:
    return typescript_program("example/main.js"), _topic_to_create("typescript")


def java_tour() -> tuple[list[str], str]:
    return java_program("-jar", str(example_jar())), _topic_to_create("java")


def _topic_to_create(client: str) -> str:
    """Returns the topic that the README of a client tells its reader to create, as ``tenant/namespace/topic``."""
    text = (_ROOT / "clients" / client / "README.md").read_text()
    assert "topicpolicies serve --pulsar pulsar://localhost:6650 --admin-url http://localhost:8080" in text
    (topic,) = re.findall(r"^curl -X PUT http://localhost:8080/admin/v2/persistent/(\S+)", text, re.MULTILINE)
    return str(topic)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        pytest.param(go, ["updated", "edited:", "an", "the", "deleted"], id="go"),
        pytest.param(typescript, ["updated", "edited:", "an", "the", "deleted"], id="typescript"),
        pytest.param(java_tour, ["updated", "producers", "cached", "exists"], id="java"),
    ],
)
async def test_an_example_fails_with_a_hint_until_its_topic_exists_and_then_runs(
    server_with_broker: ServerProcess, admin: Admin, build: Callable[[], tuple[list[str], str]], says: Sequence[str], tmp_path: Path
) -> None:
    command, topic = await asyncio.to_thread(build)
    _delete(admin, topic)
    with pytest.raises(AssertionError, match=_MISSING):
        await asyncio.to_thread(run, [*command, server_with_broker.address], tmp_path, seconds=60)
    admin.create_topic(topic)
    try:
        for _ in range(2):  # a run leaves nothing that makes the next one fail
            output = await asyncio.to_thread(run, [*command, server_with_broker.address], tmp_path, seconds=60)
            assert [line.split()[0] for line in output.splitlines()] == says
            assert "nothing" not in output
    finally:
        _delete(admin, topic)


async def test_an_example_runs_without_its_topic_if_missing_topics_are_allowed(broker: Broker, admin: Admin, tmp_path: Path) -> None:
    command, topic = await asyncio.to_thread(go)
    _delete(admin, topic)
    options = ["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--allow-missing-topics"]
    server = ServerProcess(options, tmp_path / "server.log")
    await server.start()
    try:
        output = await asyncio.to_thread(run, [*command, server.address], tmp_path, seconds=60)
    finally:
        server.kill()
    assert output.startswith("updated") and output.splitlines()[-1] in ("deleted", "exists false")


def _delete(admin: Admin, topic: str) -> None:
    try:
        admin.call("DELETE", f"persistent/{topic}", force="true")
    except AdminError as error:
        if error.status != 404:
            raise
