"""What features cost: a server with them beside one without, both called in turn, a little each.

The comparison is of the processor time of the servers' processes per update. Single updates are made 64 at once, so that both servers write
as many to the log together.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import urllib.request
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import grpc
import jwt

from bench.load import BATCH, IN_FLIGHT, TOPICS, Calls, Metadata, batch_calls, closed_loop, update_calls
from bench.targets import SERVE, Program, running
from tests.ops.collector import Collector
from tests.ports import free_port

from .figure import Figure, Measured, Scale, in_turn

_NAMESPACE = "public/default"
_ALL = "authentication, roles, metrics and traces"
_OFF = "the same, all off"
FIGURES = (
    Figure("costs-batched-all", f"BatchUpdatePolicies with {_ALL}", _OFF, "us", at_most=1.05),
    Figure("costs-single-all", f"UpdatePolicy with {_ALL}", _OFF, "us", at_most=1.05),
    Figure("costs-batched-history", "BatchUpdatePolicies with a history", _OFF, "us"),
    Figure("costs-single-history", "UpdatePolicy with a history", _OFF, "us"),
)
_SECRET = bytes(range(32))
_ROLES = '[[grants]]\nroles = ["changer"]\nnamespaces = ["public/*"]\npermissions = ["change"]\n'
_TURNS = 4
"""Turns of each server per round."""


class _Load(NamedTuple):
    program: Program
    calls: Calls
    in_flight: int
    size: int
    """Updates per call."""


def measure(scale: Scale) -> dict[str, Measured]:
    """Measures all servers, in turn."""
    with tempfile.TemporaryDirectory() as place, Collector() as collector, contextlib.ExitStack() as stack:
        directory, metrics = Path(place), f"127.0.0.1:{free_port()}"
        key, roles = directory / "secret.key", directory / "roles.toml"
        key.write_bytes(_SECRET)
        roles.write_text(_ROLES)
        asked = ("--authentication-providers", "token", "--token-secret-key", str(key), "--authorization", str(roles))
        features: dict[str, tuple[str, ...]] = {
            "off": ("--no-history",),
            "all": ("--no-history", *asked, "--metrics-listen", metrics, "--otlp-endpoint", collector.endpoint),
            "history": (),
        }
        programs = {}
        for name, options in features.items():
            (directory / name).mkdir()
            data = ("--data", str(directory / name / "policies.db"), "--no-checkpoints")
            programs[name] = stack.enter_context(running(*SERVE, *data, *options))
        return asyncio.run(_rounds(programs, metrics, scale))


async def _rounds(programs: dict[str, Program], metrics: str, scale: Scale) -> dict[str, Measured]:
    token: Metadata = (("authorization", f"Bearer {jwt.encode({'sub': 'changer'}, _SECRET, algorithm='HS256')}"),)
    taken: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    async with contextlib.AsyncExitStack() as stack:
        loads: dict[tuple[str, str], _Load] = {}
        for name, program in programs.items():
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(program.address))
            metadata = token if name == "all" else ()
            loads["batched", name] = _Load(program, batch_calls(channel, _NAMESPACE, metadata=metadata), IN_FLIGHT, BATCH)
            loads["single", name] = _Load(program, update_calls(channel, _NAMESPACE, TOPICS, metadata), BATCH, 1)
        for load in loads.values():
            await _taken(load, min(1.0, scale.seconds))
        for _ in range(scale.rounds):
            turns: defaultdict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
            for which in in_turn(_TURNS, list(loads)):
                turns[which].append(await _taken(loads[which], scale.seconds / _TURNS))
            for which, each in turns.items():
                taken[which].append(sum(us for us, _ in each) / sum(updates for _, updates in each))
            await asyncio.to_thread(_scrape, metrics)
    return {f"costs-{kind}-{name}": Measured(us, taken[kind, "off"]) for (kind, name), us in taken.items() if name != "off"}


async def _taken(load: _Load, seconds: float) -> tuple[float, int]:
    """Returns the microseconds of processor time that a server took, and the number of updates."""
    before = load.program.processor_seconds
    sample = await closed_loop(load.calls, load.in_flight, seconds)
    return (load.program.processor_seconds - before) * 1e6, sample.calls * load.size


def _scrape(metrics: str) -> None:
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=20) as answer:
        answer.read()
