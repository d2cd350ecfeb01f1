"""Servers for the gate, started as an operator starts them: one on the embedded log for all tests, or one of a test's own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from tests.broker.admin import Admin, AdminError
from tests.broker.pulsar_broker import Broker
from tests.ports import free_port

from .api import Api
from .server_process import ServerProcess

CLUSTER = 'cluster = "standalone"\n'
"""A cluster file with the cluster's name, without which no LOCAL list of clusters is accepted, and nothing else."""
_numbers = itertools.count()


class Embedded(NamedTuple):
    """The server on the embedded log that all tests share; each test has a namespace of its own."""

    server: ServerProcess
    http: str
    """Where it serves metrics and probes."""


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """The shared server: with a history, and with the cluster ``standalone``, of which nothing else is known."""
    home = tmp_path_factory.mktemp("embedded")
    (home / "cluster.toml").write_text(CLUSTER)
    http = f"127.0.0.1:{free_port()}"
    options = ["--data", str(home / "policies.db"), "--cluster-file", str(home / "cluster.toml"), "--metrics-listen", http]
    server = ServerProcess([*options, "--bookmark-interval-seconds", "1"], home / "server.log")
    asyncio.run(server.start())
    yield Embedded(server, f"http://{http}")
    server.kill()


@pytest.fixture
def namespace() -> str:
    """A namespace of the test's own."""
    return f"gate/{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(namespace: str) -> str:
    """A topic of it."""
    return f"persistent://{namespace}/orders"


@pytest.fixture
async def api(embedded: Embedded) -> AsyncIterator[Api]:
    """A caller of the shared server."""
    async with Api(embedded.server.address) as api:
        yield api


Serving = Callable[..., Awaitable[ServerProcess]]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """Starts servers of the test's own, on ``policies.db`` in its folder unless options name another log; kills them at the end."""
    servers: list[ServerProcess] = []

    async def start(*options: str, credentials: grpc.ChannelCredentials | None = None) -> ServerProcess:
        data = () if {"--data", "--pulsar"} & {*options} else ("--data", str(tmp_path / "policies.db"))
        servers.append(ServerProcess([*data, *options], tmp_path / f"server-{len(servers)}.log", credentials=credentials))
        await servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


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
    """A running server on one of the logs: the embedded one, and those of a real broker, plain and with three partitions."""
    log: str = request.param
    if log == "sqlite":
        (tmp_path / "cluster.toml").write_text(CLUSTER)
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
