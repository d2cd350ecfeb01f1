"""A guard in a process of its own: whatever fails as it starts or stops, every part is closed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.ports import free_port
from topicpolicies_server.config import GuardConfig, PulsarLogConfig, parse_address
from topicpolicies_server.guard import Guard
from topicpolicies_server.guard.guard import GuardService
from topicpolicies_server.logs.pulsar import PulsarLog
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.namespaces.registry import Registry
from topicpolicies_server.ops.http import Endpoint
from topicpolicies_server.process import until_stopped

PARTS = {"metrics": (Endpoint, "close"), "guard": (Guard, "stop"), "registry": (Registry, "close"), "log": (PulsarLog, "close")}
ADMIN = (Admin, "close")
_HANGS_SECONDS = 20


def a_guard(metrics_at: str = "127.0.0.1:0") -> GuardConfig:
    """Returns the configuration of a guard of a cluster that cannot be reached."""
    log = PulsarLogConfig(service_url=f"pulsar://127.0.0.1:{free_port()}", admin_url="http://127.0.0.1:1")
    return GuardConfig(log=log, guard=("acme/*",), metrics_listen=parse_address(metrics_at))


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often each part was closed."""
    counted: Counter[str] = Counter()

    def counting(name: str, real: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def close(part: Any) -> None:
            counted[name] += 1
            await real(part)

        return close

    for name, (kind, method) in {**PARTS, "admin": ADMIN}.items():
        monkeypatch.setattr(kind, method, counting(name, getattr(kind, method)))
    return counted


async def run(config: GuardConfig) -> None:
    """Runs a guard that gets SIGTERM as soon as it runs."""
    async with asyncio.timeout(_HANGS_SECONDS):
        await until_stopped(lambda: GuardService(config), lambda _: os.kill(os.getpid(), signal.SIGTERM))


async def test_a_guard_that_is_stopped_closes_every_part_once(closed: Counter[str]) -> None:
    await run(a_guard())
    assert closed == Counter(["metrics", "guard", "registry", "log", "admin", "admin"]), "the log has an admin API of its own"


@pytest.mark.parametrize("part", PARTS)
async def test_if_closing_one_part_of_a_guard_fails_every_part_is_closed_all_the_same(
    part: str, closed: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, method = PARTS[part]
    real = getattr(kind, method)

    async def fail(closing: Any) -> None:
        await real(closing)
        raise OSError("unexpected")

    monkeypatch.setattr(kind, method, fail)
    with pytest.raises(OSError, match="unexpected"):
        await run(a_guard())
    assert closed == Counter(["metrics", "guard", "registry", "log", "admin", "admin"]), "the log has an admin API of its own"


async def test_a_guard_that_cannot_start_closes_the_parts_that_it_had(closed: Counter[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await run(a_guard(f"127.0.0.1:{taken.getsockname()[1]}"))
    assert closed == Counter(["guard", "registry", "log", "admin", "admin"])
