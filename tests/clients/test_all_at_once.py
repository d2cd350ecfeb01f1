"""Clients of all languages change one document at once, each its own settings: the links of all changes show whether one is lost.

The calls of clients that take metadata also carry a trace, as instrumentation would add it (``TRACEPARENT``), and the history has it.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from tests.clients.changing import changed, commands
from tests.promises.server_process import ServerProcess
from tests.validators.links import Link, chain
from topicpolicies import AsyncClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_TOPIC = "persistent://public/default/all-at-once"
_TURNS = 100
_TRACE_PARENT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
_FIELDS = {
    "go": "max_consumer_per_topic",
    "java": "max_subscriptions_per_topic",
    "python": "max_producer_per_topic",
    "typescript": "max_consumers_per_subscription",
}


async def test_concurrent_changes_by_clients_of_four_languages_are_all_kept(server: ServerProcess) -> None:
    programs = await asyncio.to_thread(commands)
    printed = await changed(programs, server.address, _TOPIC, _TURNS, {"TRACEPARENT": _TRACE_PARENT})
    links: list[Link] = []
    edits = {}
    for name, lines in printed.items():
        *changes, last = lines
        links += [Link(f"{name} {turn}", previous, version) for _, turn, previous, version in map(str.split, changes)]
        edits[name] = int(last.removeprefix("runs "))
    found = chain(links)
    assert not found.broken
    assert len(found.links) == len(printed) * _TURNS
    # Changes of other languages came between those of each language, and each language repeated edits after conflicts.
    order = [link.request_id.split()[0] for link in found.links]
    overtaken = {name: sum(a == name != b for a, b in pairwise(order)) for name in printed}
    assert min(overtaken.values()) > 5, overtaken
    conflicts = {name: count - _TURNS // 2 for name, count in edits.items()}
    assert min(conflicts.values()) > 0, conflicts
    print(f"changes overtaken by another language's: {overtaken}; edits repeated on conflict: {conflicts}")
    async with AsyncClient(server.address) as client:
        final = await client.get(_TOPIC)
        origins = [entry.origin async for entry in client.history(topic=_TOPIC)]
    assert len(origins) == len(found.links)
    assert {(each.actor, each.trace_parent) for each in origins} == {(name, "" if name == "python" else _TRACE_PARENT) for name in _FIELDS}
    assert final.version == found.links[-1].version
    assert {name: getattr(final.policies, field) for name, field in _FIELDS.items()} == dict.fromkeys(_FIELDS, _TURNS - 1)
    rates = {key: entry.dispatch_rate.dispatch_throttling_rate_in_msg for key, entry in final.policies.subscription_policies.items()}
    assert rates == {f"of {name}.1": _TURNS for name in _FIELDS}
