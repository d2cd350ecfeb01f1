"""What authentication and authorization cost a server, in its processor time.

python -m bench.permitting [ROUNDS]
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import jwt

from tests.promises.server_process import ServerProcess
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import BatchUpdatePoliciesRequest, GetPolicyRequest, PolicyChangeRequest, UpdatePolicyRequest
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

SECRET = bytes(range(32))
ROLES = '[[grants]]\nroles = ["changer"]\nnamespaces = ["acme/*"]\npermissions = ["change"]\n'
TOPICS = [f"persistent://acme/orders/t{number}" for number in range(200)]
BATCHED, SINGLE, AT_ONCE, BATCH = 10_000, 2_000, 16, 100
Metadata: TypeAlias = tuple[tuple[str, str], ...]


def processor_seconds(pid: int) -> float:
    """Returns the processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def change(number: int) -> UpdatePolicyRequest:
    """Returns an update with another value than the one before."""
    return UpdatePolicyRequest(topic=TOPICS[number % len(TOPICS)], policies=TopicPolicies(max_producer_per_topic=number + 1))


class Caller:
    """Makes calls to one server."""

    def __init__(self, channel: grpc.aio.Channel, metadata: Metadata) -> None:
        self._stub: Any = TopicPoliciesServiceStub(channel)
        self._metadata = metadata
        self._made = 0

    async def batch(self, count: int) -> None:
        """Makes this many changes in batches, one after the other."""
        first, self._made = self._made, self._made + count
        for begin in range(first, first + count, BATCH):
            changes = [PolicyChangeRequest(update=change(number)) for number in range(begin, begin + BATCH)]
            response = await self._stub.BatchUpdatePolicies(BatchUpdatePoliciesRequest(changes=changes), metadata=self._metadata)
            assert all(result.HasField("success") for result in response.results)

    async def update(self, count: int, at_once: int = AT_ONCE) -> None:
        """Makes this many single updates."""
        first, self._made = self._made, self._made + count
        await self._each(range(first, first + count), self._update, at_once)

    def _update(self, number: int) -> Awaitable[object]:
        call: Awaitable[object] = self._stub.UpdatePolicy(change(number), metadata=self._metadata)
        return call

    async def read(self, count: int) -> None:
        """Makes this many reads."""
        await self._each(
            range(count),
            lambda number: self._stub.GetPolicy(GetPolicyRequest(topic=TOPICS[number % len(TOPICS)]), metadata=self._metadata),
        )

    async def _each(self, numbers: range, call: Callable[[int], Awaitable[object]], at_once: int = AT_ONCE) -> None:
        waiting = iter(numbers)

        async def some() -> None:
            for number in waiting:
                await call(number)

        await asyncio.gather(*(some() for _ in range(at_once)))


async def measure(directory: Path, options: list[str], metadata: Metadata) -> tuple[float, ...]:
    """Returns microseconds of the server's processor time: per change of a batch, single update, and read."""
    data = directory / "policies.db"
    process = ServerProcess(["--data", str(data), "--no-history", "--no-checkpoints", *options], directory / "output")
    await process.start()
    try:
        async with grpc.aio.insecure_channel(process.address) as channel:
            caller = Caller(channel, metadata)
            await caller.batch(1_000)
            await caller.update(300)
            found = []
            for count, go in ((BATCHED, caller.batch), (SINGLE, caller.update), (SINGLE, caller.read)):
                before = processor_seconds(process.pid)
                await go(count)
                found.append(1e6 * (processor_seconds(process.pid) - before) / count)
            return tuple(found)
    finally:
        process.kill()


def written(directory: Path) -> tuple[Path, Path]:
    """Writes the secret key for tokens and the file of roles. Returns their paths."""
    key, roles = directory / "secret.key", directory / "roles.toml"
    key.write_bytes(SECRET)
    roles.write_text(ROLES)
    return key, roles


async def main(rounds: int) -> None:
    """Measures each way in turn, this many times, and prints medians."""
    with tempfile.TemporaryDirectory() as place:
        key, roles = written(Path(place))
        token = (("authorization", f"Bearer {jwt.encode({'sub': 'changer'}, SECRET, algorithm='HS256')}"),)
        tokens = ["--authentication-providers", "token", "--token-secret-key", str(key)]
        ways: dict[str, tuple[list[str], Metadata]] = {
            "nobody is asked": ([], ()),
            "tokens": ([*tokens, "--allow-authenticated"], token),
            "tokens, and a file of roles": ([*tokens, "--authorization", str(roles)], token),
        }
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                with tempfile.TemporaryDirectory() as own:
                    found[name].append(await measure(Path(own), *way))
    print(f"{'microseconds':30}{'batched':>10}{'single':>10}{'read':>10}")
    for name, rows in found.items():
        print(f"{name:30}" + "".join(f"{statistics.median(column):10.0f}" for column in zip(*rows, strict=True)))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
