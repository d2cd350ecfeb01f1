"""The garbage collector of a server process: objects that stay are not examined again, and cycles of released documents are found."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Iterator

import pytest

from tests.namespaces.bench import NAMESPACE, Bench, simulate
from topicpolicies_server import process
from topicpolicies_server.config import Address, EmbeddedLogConfig, ServerConfig
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces.activity import Activity
from topicpolicies_server.process import MIDDLE, OLDEST, YOUNGEST, collector_off_during_start, run, tuned_collector
from topicpolicies_server.rpc.server import Server


@pytest.fixture(autouse=True)
def aside() -> Iterator[None]:
    """Sets the objects of the test process aside again after each test."""
    yield
    gc.freeze()


class Circle:
    """A reference cycle, which only a garbage collection finds."""

    def __init__(self) -> None:
        self.itself = self


def circles() -> int:
    return sum(type(each) is Circle for each in gc.get_objects())


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every full collection counts as a long one; only the tests make collections."""
    monkeypatch.setattr(process, "LONG_SECONDS", 0.0)


def aside_of(what: list[object]) -> bool:
    """Whether an object is set aside from collections."""
    return not any(each is what for each in gc.get_objects())


@pytest.mark.usefixtures("long")
def test_what_a_long_full_collection_leaves_is_set_aside_and_a_cycle_never_is() -> None:
    activity = Activity()
    with tuned_collector(activity):
        gc.disable()
        stays: list[object] = [[]]
        Circle()
        activity.loaded("acme/orders")
        assert circles() == 1 and not aside_of(stays)
        gc.collect(1)
        assert not aside_of(stays)
        gc.collect()
        assert circles() == 0 and aside_of(stays)


@pytest.mark.usefixtures("long")
def test_a_cycle_of_released_documents_is_collected_although_it_was_set_aside() -> None:
    activity = Activity()
    with tuned_collector(activity):
        gc.disable()
        circle = Circle()
        gc.collect()
        del circle
        gc.collect()
        assert circles() == 0, "the cycle is set aside"
        activity.let_go()
        assert circles() == 1, "the cycle is still to be collected"
        gc.collect()
        gc.unfreeze()
        assert circles() == 0


def test_what_a_short_full_collection_leaves_is_examined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LONG_SECONDS", 60.0)
    with tuned_collector(Activity()):
        stays: list[object] = [[]]
        gc.collect()
        assert not aside_of(stays)


def test_a_namespace_calls_the_hook_when_its_documents_are_released() -> None:
    calls: list[str] = []

    async def scenario(bench: Bench) -> None:
        activity = bench.registry.common.activity
        activity.on_let_go = lambda: calls.append("let go")
        await bench.set(1)
        bench.opened.lose(LogError(LogState.LOST, "lost"))
        await bench.set(2)
        assert calls == [], "the same view is used again"
        bench.storage.recreate(NAMESPACE)
        await bench.set(3)
        assert calls == ["let go"]
        calls.clear()
        namespace = bench.namespace
        await asyncio.sleep(bench.limits.namespace_idle_seconds * 2)
        assert calls == ["let go"] and bench.namespace is not namespace

    simulate(scenario)


async def test_a_server_that_is_embedded_in_a_program_leaves_the_collector_as_it_is() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    gc.unfreeze()
    async with Server(ServerConfig(log=EmbeddedLogConfig(path=None), listen=Address("127.0.0.1", 0))) as server:
        await server.registry.get(NAMESPACE).ready()
        assert (gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()) == (*before, 0)


def test_the_former_settings_of_the_collector_are_restored_at_the_end() -> None:
    activity, before = Activity(), (gc.get_threshold(), list(gc.callbacks))
    with pytest.raises(KeyError), tuned_collector(activity):
        assert gc.get_threshold() == (YOUNGEST, MIDDLE, OLDEST) and gc.get_freeze_count() > 0
        assert activity.on_let_go is not None
        raise KeyError
    assert (gc.get_threshold(), list(gc.callbacks)) == before and activity.on_let_go is None


def test_the_collector_is_tuned_while_a_server_process_runs() -> None:
    service, seen = Server(ServerConfig(log=EmbeddedLogConfig(path=None), listen=Address("127.0.0.1", 0))), []

    def started(_: Server) -> None:
        seen.append(gc.get_threshold())
        os.kill(os.getpid(), signal.SIGTERM)

    before = gc.get_threshold()
    run(lambda: service, started)
    assert seen == [(YOUNGEST, MIDDLE, OLDEST)] and gc.get_threshold() == before


def test_the_collector_is_off_while_a_process_starts() -> None:
    with pytest.raises(KeyError), collector_off_during_start():
        assert not gc.isenabled()
        with tuned_collector(Activity()):
            assert gc.isenabled()
        raise KeyError
    assert gc.isenabled()
