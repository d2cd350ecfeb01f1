"""Brokers that keep topic policies in the metadata store (PIP-469) read no change log, except of namespaces that already have one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.broker.admin import CHANGE_EVENTS, Admin
from tests.broker.pulsar_broker import OwnBroker
from tests.plain_http import NO_TLS
from tests.ports import free_port

from .api import Api, Refused, Update
from .server_process import ServerProcess

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

_SETTINGS = {"topicPoliciesServiceClassName": "org.apache.pulsar.broker.service.MetadataStoreTopicPoliciesService"}
_SAYS = "metadata store"
_OLDER = "public/older"
_PROGRAM = (sys.executable, "-m", "topicpolicies_server")
_ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[OwnBroker]:
    """A broker that keeps topic policies in its metadata store. The namespace ``_OLDER`` has a change log from before its last start."""
    with OwnBroker(settings=_SETTINGS) as broker:
        with broker.admin() as client:
            client.call("PUT", f"namespaces/{_OLDER}", {"replication_clusters": ["standalone"]})
            client.create_topic(f"{_OLDER}/{CHANGE_EVENTS}")
        broker.stop()  # it remembers for an hour which namespaces have no change log
        broker.start()
        yield broker


@pytest.fixture
def admin(elsewhere: OwnBroker) -> Iterator[Admin]:
    """The admin API of that broker."""
    with elsewhere.admin() as client:
        yield client


@pytest.fixture
def options(elsewhere: OwnBroker) -> list[str]:
    """The options of the broker."""
    return ["--pulsar", elsewhere.service_url, "--admin-url", elsewhere.admin_url]


@pytest.fixture
async def api(options: list[str], metrics: str, tmp_path: Path) -> AsyncIterator[Api]:
    """A caller of a server on that broker, whose metrics are at ``metrics``."""
    server = ServerProcess([*options, "--metrics-listen", metrics], tmp_path / "server.log")
    await server.start()
    async with Api(server.address) as caller:
        yield caller
    server.kill()


@pytest.fixture
def metrics() -> str:
    """A free address."""
    return f"127.0.0.1:{free_port()}"


def _has_log(admin: Admin, namespace: str) -> bool:
    return f"persistent://{namespace}/{CHANGE_EVENTS}" in admin.call("GET", f"persistent/{namespace}", includeSystemTopic="true")


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_PROGRAM, *words], env=_ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)


@contextlib.contextmanager
def _guard(*options: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([*_PROGRAM, "guard", "public/*", *options], env=_ENVIRONMENT, stderr=subprocess.PIPE, text=True) as guard:
        try:
            yield guard
        finally:
            guard.kill()


async def test_every_request_is_refused_with_the_reason_and_no_log_is_created(api: Api, admin: Admin) -> None:
    namespace = admin.create_namespace("elsewhere")
    topic = f"persistent://{namespace}/orders"
    admin.create_topic(f"{namespace}/orders")
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: api.update(topic, {"max_producer_per_topic": 3}),
        lambda: api.update(topic, {"max_producer_per_topic": 3}, dry_run=True),
        lambda: api.delete(topic),
        lambda: api.get(topic),
        lambda: api.documents(namespace),
        lambda: api.effective(topic),
    ]
    for call in calls:
        with pytest.raises(Refused) as refused:
            await call()
        assert (refused.value.code, refused.value.reason) == ("FAILED_PRECONDITION", "TOPIC_POLICIES_ELSEWHERE")
        assert _SAYS in refused.value.message
    (answer,) = await api.batch([Update(topic)])
    assert isinstance(answer, Refused)
    states = [event async for event in _until(api.watch([namespace]), lambda event: event.state == "FAILED")]
    assert states[-1].reason == "TOPIC_POLICIES_ELSEWHERE"
    assert _SAYS in states[-1].message
    assert not _has_log(admin, namespace)


async def test_a_namespace_that_brokers_still_read_from_its_log_is_served(api: Api, admin: Admin) -> None:
    admin.create_topic(f"{_OLDER}/orders")
    assert (await api.update(f"persistent://{_OLDER}/orders", {"max_producer_per_topic": 3})).outcome == "APPLIED"
    deadline = time.monotonic() + 30
    while admin.call("GET", f"persistent/{_OLDER}/orders/maxProducers") != 3:
        assert time.monotonic() < deadline, "the broker does not read the change log"
        await asyncio.sleep(0.1)


async def test_start_readiness_doctor_and_guard_name_the_other_service(api: Api, metrics: str, options: list[str], tmp_path: Path) -> None:
    async with httpx.AsyncClient(trust_env=False, verify=NO_TLS) as http:
        ready = (await http.get(f"http://{metrics}/readyz?verbose")).text
    assert _SAYS in ready
    assert _SAYS in (tmp_path / "server.log").read_text()
    doctor = await asyncio.to_thread(_command, "doctor", "--pre", *options)
    assert doctor.returncode != 0
    assert _SAYS in doctor.stdout
    with _guard(*options) as guard:
        assert guard.stderr is not None
        lines = iter(guard.stderr.readline, "")
        assert await asyncio.wait_for(asyncio.to_thread(lambda: next((line for line in lines if _SAYS in line), "")), 30)


async def _until(events: AsyncIterator[Any], last: Callable[[Any], bool]) -> AsyncIterator[Any]:
    async for event in events:
        yield event
        if last(event):
            return
