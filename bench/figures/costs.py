"""What features cost: servers with them beside one without, called in turn, a little each.

The comparison is of the processor time of the servers' processes per update. 64 updates are in flight, so that all servers write as many to
the log together.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from functools import partial
from pathlib import Path

import grpc
import jwt

from bench.load import TOPICS, closed_loop, loaded, update_calls
from bench.targets import SERVE, Program, running
from tests.ops.collector import Collector
from tests.ports import free_port

from .figure import Figure, Measured, Scale, in_rounds

_NAMESPACE = "public/default"
_OFF = "the same, all off"
FIGURES = (
    Figure("costs-all", "UpdatePolicy with authentication, roles, metrics and traces", _OFF, "us", at_most=1.05),
    Figure("costs-history", "UpdatePolicy with a history", _OFF, "us"),
)
_SECRET = bytes(range(32))
_ROLES = '[[grants]]\nroles = ["changer"]\nnamespaces = ["public/*"]\npermissions = ["change"]\n'
_IN_FLIGHT = 64
_TURNS = 4
"""Turns of each server per round."""


def measure(scale: Scale) -> dict[str, Measured]:
    """Measures all servers, in turn."""
    with tempfile.TemporaryDirectory() as place, Collector() as collector, contextlib.ExitStack() as stack:
        directory = Path(place)
        key, roles = directory / "secret.key", directory / "roles.toml"
        key.write_bytes(_SECRET)
        roles.write_text(_ROLES)
        asked = ("--authentication-providers", "token", "--token-secret-key", str(key), "--authorization", str(roles))
        seen = ("--metrics-listen", f"127.0.0.1:{free_port()}", "--otlp-endpoint", collector.endpoint)
        programs = {}
        for name, options in {"off": ("--no-history",), "all": ("--no-history", *asked, *seen), "history": ()}.items():
            (directory / name).mkdir()
            data = ("--data", str(directory / name / "policies.db"), "--no-checkpoints")
            programs[name] = stack.enter_context(running(*SERVE, *data, *options))
        return asyncio.run(_rounds(programs, scale))


async def _rounds(programs: dict[str, Program], scale: Scale) -> dict[str, Measured]:
    token = f"Bearer {jwt.encode({'sub': 'changer'}, _SECRET, algorithm='HS256')}"
    async with contextlib.AsyncExitStack() as stack:
        loads = {}
        for name, program in programs.items():
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(program.address))
            calls = update_calls(channel, _NAMESPACE, TOPICS, (("authorization", token),) if name == "all" else ())
            await closed_loop(calls, _IN_FLIGHT, min(1.0, scale.seconds))
            loads[name] = partial(loaded, program, calls, _IN_FLIGHT, scale.seconds / _TURNS)
        found = await in_rounds(scale.rounds * _TURNS, loads)
    taken = {name: [used for _, used in each] for name, each in found.items()}
    return {f"costs-{name}": Measured(taken[name], taken["off"]) for name in ("all", "history")}
