"""The durable logs on which every promise is tested: the embedded one, and those of a real broker, plain and with three partitions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.broker.admin import Admin, AdminError
from tests.broker.pulsar_broker import Broker

from .server_process import ServerProcess


class Place(NamedTuple):
    """A server, and a namespace on its log."""

    server: ServerProcess
    namespace: str
    log: str
    admin: Admin | None = None
    """The admin API of the broker, if there is one."""

    def topic(self, name: str) -> str:
        """Returns the full name of a topic in the namespace; creates the topic if there is a broker."""
        if self.admin is not None:
            with contextlib.suppress(AdminError):  # it exists already
                self.admin.create_topic(f"{self.namespace}/{name}")
        return f"persistent://{self.namespace}/{name}"


LOGS = [
    pytest.param("sqlite", id="sqlite-1-partition"),
    pytest.param("pulsar", id="pulsar-plain", marks=pytest.mark.broker),
    pytest.param("pulsar-3", id="pulsar-3-partitions", marks=pytest.mark.broker),
]


@pytest.fixture(params=LOGS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """A running server on one of the logs."""
    log: str = request.param
    if log == "sqlite":
        (tmp_path / "cluster.toml").write_text('cluster = "standalone"\n')
        options = ["--data", str(tmp_path / "policies.db"), "--cluster-file", str(tmp_path / "cluster.toml")]
        namespace, admin = "public/default", None
    else:
        broker: Broker = request.getfixturevalue("broker")
        admin = request.getfixturevalue("admin")
        namespace = admin.create_namespace("promises")
        if log == "pulsar-3":
            admin.partition_change_events(namespace, 3)
        options = ["--pulsar", broker.service_url, "--admin-url", broker.admin_url]
    server = ServerProcess(options, tmp_path / "server.log")
    await server.start()
    yield Place(server, namespace, log, admin)
    server.kill()


class Sidecars(NamedTuple):
    """Two servers on the shared broker, for all tests; they show secrets, and nobody ends them."""

    one: ServerProcess
    two: ServerProcess


@pytest.fixture(scope="session")
def sidecars(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecars]:
    """Two running servers on the shared broker."""
    home = tmp_path_factory.mktemp("sidecars")
    options = ["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--show-secrets"]
    made = Sidecars(*(ServerProcess(options, home / f"{name}.log") for name in Sidecars._fields))
    try:
        for server in made:
            asyncio.run(server.start())
        yield made
    finally:
        for server in made:
            server.kill()
