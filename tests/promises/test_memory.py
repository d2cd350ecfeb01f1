"""No caller can make the server keep more memory than its options allow (SECURITY.md): nothing of a refused call stays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from topicpolicies.v1.policies_pb2 import TopicPolicies

from .api import Api, Refused, Update, batch_message
from .conftest import Serving
from .server_process import ServerProcess
from .test_security import NAMESPACE, TOPIC, Guarded, of

LONG = "x" * 250_000
BEYOND = bytes([0xC2, 0x3E, 0x90, 0xA1, 0x0F]) + LONG.encode()
"""A field that no request of this version has, of 250,000 bytes."""
CALLS, AT_ONCE = 400, 32
"""Of each kind of refusal: how many calls, and how many at once."""
MOST_MIB = 64.0
"""By how much the server's memory may grow meanwhile. More than ten times as much is sent."""


def resident(server: ServerProcess) -> float:
    """Returns the MiB of memory that a server's process takes."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def watch(api: Api, topic: str) -> None:
    """Watches a topic until the watch is refused."""
    async for _ in api.watch(topics=[topic]):
        pass


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="where Linux says what memory a process takes")
async def test_refused_calls_leave_nothing_in_memory(serving: Serving, tmp_path: Path) -> None:
    server = await serving(*Guarded(tmp_path).options, "--log-level", "warning")
    change = Update(TOPIC, TopicPolicies(max_producer_per_topic=1), version="another")
    conflict = change.message().SerializeToString() + BEYOND
    batch = batch_message([Update(TOPIC, reason="x" * 200)] * 1_001).SerializeToString()
    async with Api(server.address, metadata=of("owner")) as owner, Api(server.address, metadata=of("stranger")) as stranger:
        refused: dict[str, Callable[[], Awaitable[object]]] = {
            "INVALID_ARGUMENT of a batch": lambda: owner.send_bytes("BatchUpdatePolicies", batch),
            "ABORTED": lambda: owner.send_bytes("UpdatePolicy", conflict),
            "PERMISSION_DENIED": lambda: stranger.send_bytes("UpdatePolicy", conflict),
            "INVALID_ARGUMENT of a read": lambda: owner.get(LONG),
            "INVALID_ARGUMENT of a list": lambda: owner.page(NAMESPACE, after=LONG),
            "INVALID_ARGUMENT of no message": lambda: owner.send_bytes("UpdatePolicy", LONG.encode()),
            "INVALID_ARGUMENT of a watch": lambda: watch(owner, LONG),
        }

        async def call(kind: str, numbers: range) -> None:
            left = iter(numbers)

            async def one_after_the_other() -> None:
                for _ in left:
                    with pytest.raises(Refused) as caught:
                        await refused[kind]()
                    assert caught.value.code == kind.partition(" ")[0], caught.value

            await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))

        for kind in refused:
            await call(kind, range(AT_ONCE))  # what a server takes once, it keeps
        grown = {"": resident(server)}
        for kind in refused:
            await call(kind, range(CALLS))
            grown[kind] = resident(server)
        assert grown[kind] - grown[""] < MOST_MIB, grown
