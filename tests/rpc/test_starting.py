"""Servers that fail to start, or are stopped while they start, or twice: what was opened is closed once, and in order."""

from __future__ import annotations

import asyncio
import socket
import threading
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from tests.eventually import eventually
from tests.stubs import async_stub
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import UpdatePolicyRequest
from topicpolicies_server.config import AccessLogConfig, Address, EmbeddedLogConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.logs.sqlite.log import SqliteLog
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC

PATIENCE = 100.0
NEVER = 600.0


class Silent(SqliteLog):
    """A log that does not answer whether it can be reached until a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.answers = asyncio.Event()
        self.closed = False

    async def reach(self) -> None:
        """Returns once ``answers`` is set."""
        self.asked += 1
        await self.answers.wait()

    def cut_off(self, error: Exception) -> None:
        """Does nothing: no call waits for this log."""

    async def close(self) -> None:
        """Closes the log, and records that."""
        self.closed = True
        await super().close()


def config(listen: str = "127.0.0.1:0", **rest: object) -> ServerConfig:
    limits = replace(Limits(), drain_seconds=NEVER, update_timeout_seconds=NEVER)
    made = ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address(listen), limits=limits)
    return replace(made, **rest)  # type: ignore[arg-type]


@pytest.fixture
async def silent(monkeypatch: pytest.MonkeyPatch) -> Silent:
    """Returns a silent log that every server of a test uses."""
    log = Silent()

    async def opened(*_: object) -> Silent:
        return log

    monkeypatch.setattr("topicpolicies_server.rpc.server.open_log", opened)
    return log


def tasks() -> set[str]:
    """Returns the names of this loop's tasks, without the test's own."""
    return {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}


def taken() -> tuple[socket.socket, Address]:
    """Returns a listening socket, and its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, Address("127.0.0.1", listener.getsockname()[1])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def test_a_cancelled_start_closes_the_log_and_gives_back_tasks_threads_and_ports(silent: Silent, tmp_path: Path) -> None:
    before, port = tasks(), free_port()
    server = Server(
        config(f"127.0.0.1:{port}", metrics_listen=Address("127.0.0.1", 0), access_log=AccessLogConfig(path=tmp_path / "calls"))
    )
    starting = asyncio.create_task(server.start())
    await eventually(lambda: silent.asked > 0)
    starting.cancel()
    await asyncio.wait({starting}, timeout=PATIENCE)
    assert starting.cancelled() and silent.closed
    assert tasks() <= before
    assert not [thread.name for thread in threading.enumerate() if thread.name in ("http", "access log")]
    socket.create_server(("127.0.0.1", port)).close()


async def test_a_start_that_fails_after_its_address_is_bound_gives_the_address_back() -> None:
    port = free_port()
    listener, address = taken()
    with listener, pytest.raises(OSError, match="in use"):
        await Server(config(f"127.0.0.1:{port}", metrics_listen=address)).start()
    async with Server(config(f"127.0.0.1:{port}")) as server, grpc.aio.insecure_channel(server.address) as channel:
        await async_stub(channel).UpdatePolicy(update(), timeout=PATIENCE)


def update() -> UpdatePolicyRequest:
    return UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1))
