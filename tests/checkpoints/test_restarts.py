"""A restart from a checkpoint has the same view, requests and tokens as one that reads the whole log."""

from __future__ import annotations

from pathlib import Path

import pytest

from topicpolicies_server.core.reading.tokens import Mode, OutOfRange, Selection
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.namespaces.registry import Registry

from .server import NAMESPACE, Server, a_key, loaded_from, ready


def view_of(registry: Registry) -> View:
    follower = registry.get(NAMESPACE)._life.served
    assert follower is not None
    return follower.view


def shown(view: View) -> dict[object, object]:
    """Returns the heads of a view by key, in the order of their last change."""
    return {head.key: (head.document, head.version, head.previous, head.place) for head in view.heads()}


async def test_after_a_stop_the_view_is_restored_without_reading_the_log_again(tmp_path: Path) -> None:
    server = Server(tmp_path)
    async with server.running() as registry:
        for number in range(5):
            await server.set(registry, a_key(number), number + 1)
        await server.set(registry, a_key(2), 9)
        await server.delete(registry, a_key(3))
        before, number = shown(view_of(registry)), view_of(registry).number
    async with server.running() as registry:
        await ready(registry)
        assert loaded_from(registry) == "checkpoint"
        assert shown(view_of(registry)) == before and list(shown(view_of(registry))) == list(before)
        assert view_of(registry).number == number
        await server.set(registry, a_key(2), 10)
        assert view_of(registry).number == number + 1


async def test_after_a_kill_events_since_the_checkpoint_are_read_from_the_log(tmp_path: Path) -> None:
    server = Server(tmp_path)
    async with server.running(killed=True) as registry:
        await server.set(registry, a_key(1), 1)
        await server.set(registry, a_key(2), 2)
        await server.keep()
        await server.set(registry, a_key(2), 3)
        await server.set(registry, a_key(3), 4)
        before = shown(view_of(registry))
    async with server.running() as registry:
        await ready(registry)
        assert loaded_from(registry) == "checkpoint"
        assert shown(view_of(registry)) == before


async def test_retries_of_all_requests_are_replayed_after_restarts_from_a_checkpoint(tmp_path: Path) -> None:
    server = Server(tmp_path)
    results = {}
    async with server.running() as registry:
        for number in range(40):  # more than an event carries
            results[number] = await server.set(registry, a_key(1), number, f"the request {number}")
    for _ in range(2):
        async with server.running() as registry:
            for number, first in results.items():
                again = await server.set(registry, a_key(1), number, f"the request {number}")
                assert (again.replayed, again.version) == (True, first.version)
            assert loaded_from(registry) == "checkpoint"


async def test_tokens_from_before_a_restart_are_resumed_or_refused_as_without_a_checkpoint(tmp_path: Path) -> None:
    server = Server(tmp_path)
    async with server.running() as registry:
        await server.set(registry, a_key(1), 1)
        hub = registry.get(NAMESPACE)._life.hub
        assert hub is not None
        token = hub.token
        await server.set(registry, a_key(2), 2)
        await server.delete(registry, a_key(1))
        later = hub.token
    async with server.running() as registry:
        await ready(registry)
        hub = registry.get(NAMESPACE)._life.hub
        assert hub is not None and loaded_from(registry) == "checkpoint"
        assert hub.token.log == later.log and hub.token.reaches(later)
        assert [head.key for head in hub.changed_since(token) or ()] == [a_key(2), a_key(1)]
        hub.subscribe(Selection(None), Mode.LATEST, token, lambda: None)
        with pytest.raises(OutOfRange):
            hub.subscribe(Selection(None), Mode.LATEST, token._replace(positions=("3fff",)), lambda: None)
