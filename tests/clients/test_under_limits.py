"""Clients of all languages under the limits of a principal, one after the other: they wait and repeat refused calls, and no change is lost.

Their calls also carry a trace, as a caller's instrumentation would add it (``TRACEPARENT``), and the history has it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.clients.changing import changed, commands
from tests.clients.toolchains import RUST, cargo, run
from tests.logs.pulsar.conftest import eventually
from tests.promises.server_process import ServerProcess
from tests.stubs import async_stub
from tests.validators.links import Link, chain
from topicpolicies import AsyncClient
from topicpolicies.v1 import service_pb2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_TOPIC = "persistent://public/default/under-limits"
_ANOTHER = "persistent://public/default/another"
_TURNS = 8
_CHANGES_IN_A_SECOND = 2
"""The limit of changes per second, far below what any client makes even on a busy machine. It is also the burst."""
_CALLS = 8
_OTHERS = 4
"""How many tasks of the same principal delete another topic's policies at the same time: so many that turns come too late to wait for."""
_SECONDS = 120.0
"""The longest wait for an event, with room for a busy machine."""
_WITHOUT_A_TRACE = {"rust"}
"""The clients whose callers can't add metadata, as their pages say."""


def _rust() -> dict[str, list[str]]:
    run([cargo(), "build", "--quiet", "--locked", "--offline", "--example", "changer"], RUST, seconds=800)
    return {"rust": [str(RUST / "target" / "debug" / "examples" / "changer")]}


def _parent(number: int) -> str:
    return f"00-{number:032x}-00f067aa0ba902b7-01"


class _Record:
    """The server's record of calls."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def calls(self) -> Iterator[dict[str, Any]]:
        whole = self._path.read_text().rpartition("\n")[0]  # the last line may be incomplete
        yield from map(json.loads, whole.splitlines())

    def refused(self, method: str) -> int:
        """Counts the calls of a method that exceeded a limit of their principal."""
        return sum(each["call"] == method and each.get("reason") == "PRINCIPAL_LIMIT" for each in self.calls())

    def applied(self) -> list[dict[str, Any]]:
        """Returns the records of the changes that were made."""
        return [each for each in self.calls() if each["call"] == "UpdatePolicy" and each["outcome"] == "APPLIED"]


@asynccontextmanager
async def _calls_used_up(server: ServerProcess) -> AsyncIterator[None]:
    """Uses up the principal's limit of calls in progress until the block ends."""
    async with server.channel() as channel:
        stub = async_stub(channel)
        watches = [stub.WatchPolicies(service_pb2.WatchPoliciesRequest(topics=[_TOPIC])) for _ in range(_CALLS)]
        try:
            for watch in watches:
                assert await watch.read() is not grpc.aio.EOF
            yield
        finally:
            for watch in watches:
                watch.cancel()


@asynccontextmanager
async def _others(server: ServerProcess) -> AsyncIterator[None]:
    """Has other clients of the principal make changes as fast as they can until the block ends."""
    request = service_pb2.DeletePolicyRequest(topic=_ANOTHER)

    async def change() -> None:
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await stub.DeletePolicy(request)

    async with server.channel() as channel:
        stub = async_stub(channel)
        changing = [asyncio.create_task(change()) for _ in range(_OTHERS)]
        try:
            yield
        finally:
            for each in changing:
                each.cancel()
            await asyncio.gather(*changing, return_exceptions=True)


async def _change(server: ServerProcess, record: _Record, name: str, command: list[str], parent: str) -> list[str]:
    """Runs the changer of one client; returns the lines that it printed.

    Its first read comes while no more calls are allowed, and its first changes while other clients use up the limit of changes.
    """
    reads, changes, made = record.refused("GetPolicy"), record.refused("UpdatePolicy"), len(record.applied())
    async with _calls_used_up(server):
        changing = asyncio.ensure_future(changed({name: command}, server.address, _TOPIC, _TURNS, {"TRACEPARENT": parent}))
        await eventually(lambda: changing.done() or record.refused("GetPolicy") > reads, _SECONDS)
        assert not changing.done(), f"the calls of {name} were not refused"
    async with _others(server):
        await eventually(lambda: changing.done() or record.refused("UpdatePolicy") > changes, _SECONDS)
    printed = (await changing)[name]
    await eventually(lambda: len(record.applied()) == made + _TURNS, _SECONDS)
    assert record.refused("UpdatePolicy") > changes, f"no change of {name} was refused"
    first, *_, last = record.applied()[made:]
    begin, end = (datetime.fromisoformat(each["ts"]).timestamp() for each in (first, last))
    seconds = end - begin + first["ms"] / 1000
    least = (_TURNS - _CHANGES_IN_A_SECOND) / _CHANGES_IN_A_SECOND
    assert seconds >= least - 0.005, f"{name} took only {seconds:.3f} s"  # times in the record are in milliseconds
    return printed


@pytest.mark.parametrize("build", [commands, pytest.param(_rust, marks=pytest.mark.evidence)])
async def test_no_change_is_lost_under_the_limits_of_a_principal(tmp_path: Path, build: Callable[[], dict[str, list[str]]]) -> None:
    programs = await asyncio.to_thread(build)
    record = _Record(tmp_path / "calls.jsonl")
    options = ["--data", str(tmp_path / "policies.db"), "--log-format", "json", "--call-record", "all", "--call-record-file"]
    limits = ["--max-changes-per-second-per-principal", str(_CHANGES_IN_A_SECOND), "--max-calls-per-principal", str(_CALLS)]
    server = ServerProcess([*options, str(tmp_path / "calls.jsonl"), *limits], tmp_path / "server.log")
    await server.start()
    parents = {name: "" if name in _WITHOUT_A_TRACE else _parent(number) for number, name in enumerate(programs, 1)}
    links: list[Link] = []
    try:
        for number, (name, command) in enumerate(programs.items(), 1):
            lines = await _change(server, record, name, command, _parent(number))
            links += [Link(f"{name} {turn}", previous, version) for _, turn, previous, version in map(str.split, lines[:-1])]
        found = chain(links)
        assert not found.broken
        assert len(found.links) == len(programs) * _TURNS
        async with AsyncClient(server.address) as client:
            final = await client.get(_TOPIC)
            history = [entry async for entry in client.history(topic=_TOPIC, oldest_first=True)]
    finally:
        server.kill()
    assert final.version == found.links[-1].version
    assert [entry.document.version for entry in history if entry.document is not None] == [link.version for link in found.links]
    assert [entry.origin.trace_parent for entry in history] == [parents[link.request_id.split()[0]] for link in found.links]
