"""Leaders are killed, or stopped in order, under load from generated stubs, which have gRPC's own service config, and call any sidecar.

No acknowledged change is lost, none is made twice, watches show each once and in order, and no call has to be repeated more than once.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import signal
import time
from typing import Any

import pytest

from tests.promises.api import Api
from tests.promises.bare_stubs.programs import LANGUAGES, Program
from tests.validators.links import Link, chain

from .conftest import Cluster

ENDS = (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)
"""How the leaders end."""
CLIENTS = 3
"""The clients of each language."""
ANSWERS = 30
"""How many answers each language has between two of them."""


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cluster", [pytest.param(0, id="plain")], indirect=True)
async def test_bare_stubs_lose_nothing_when_leaders_are_killed_or_stopped(cluster: Cluster) -> None:
    topic, targets = cluster.topics[0], cluster.targets
    async with contextlib.AsyncExitStack() as running:
        watches = [await running.enter_async_context(Program(each, targets, "watch", cluster.namespace)) for each in LANGUAGES]
        for each in watches:
            await each.until(lambda lines: any(line.get("synced") for line in lines))
        loads = [
            await running.enter_async_context(Program(language, targets[first:] + targets[:first], "load", topic, str(CLIENTS)))
            for first, language in enumerate(LANGUAGES)
        ]
        seconds = []
        for end in ENDS:
            await _answers(loads)
            leader = await cluster.leader()
            began = time.monotonic()
            ending = asyncio.create_task(asyncio.to_thread(leader.end, end))
            await cluster.leader(after=leader.address)
            await asyncio.gather(*(load.until(_more(load, 1)) for load in loads))
            seconds.append(time.monotonic() - began)
            await ending
            await cluster.start(leader)
        await _answers(loads)
        calls = [line for load in loads for line in await load.ended()]
        found = chain(Link(call["request_id"], call["previous_version"], call["version"]) for call in calls if "version" in call)
        errors = collections.Counter(error for call in calls for error in call["errors"])
        print(
            f"\n{cluster.namespace}: after SIGKILL and SIGTERM answers of both languages within {max(seconds):.2f} s; {len(calls)} calls,"
            f" {sum(call.get('replayed', False) for call in calls)} replayed; errors: {dict(errors) or 'none'}"
        )
        assert all("version" in call for call in calls), "every change was acknowledged"
        assert max(len(call["errors"]) for call in calls) <= 1
        assert not found.twice
        assert not found.forks
        assert not found.loose
        assert len(found.links) == len(calls)
        changes = list(zip(["0", *(link.version for link in found.links)], (link.version for link in found.links), strict=False))
        for each in watches:
            await each.until(lambda lines: _shown(lines)[-1:] == changes[-1:])
            assert _shown(each.lines) == changes
            assert not any(line["event"] == "reset" for line in each.lines)
    last = {call["name"]: call["value"] for call in calls}
    for server in cluster.servers:
        async with Api(server.address) as api:
            read = await api.get(topic, at_least_version=found.links[-1].version)
        assert read.policies is not None and read.version == found.links[-1].version
        entries = read.policies.subscription_policies.items()
        assert {name: entry.dispatch_rate.dispatch_throttling_rate_in_msg for name, entry in entries} == last


async def _answers(loads: list[Program]) -> None:
    await asyncio.gather(*(load.until(_more(load, ANSWERS)) for load in loads))


def _more(load: Program, answers: int) -> Any:
    goal = len(load.lines) + answers
    return lambda lines: len(lines) >= goal


def _shown(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Returns the previous version and the version of each change that a watch has shown."""
    return [(line["previous_version"], line["version"]) for line in lines if line["event"] == "change"]
