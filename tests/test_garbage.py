"""The garbage collector of a server process: objects that stay are not examined again, and cycles of released documents are found."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.namespaces.bench import NAMESPACE, Bench, simulate
from topicpolicies_server.config import Address, EmbeddedLogConfig, ServerConfig
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.garbage import LONG_SECONDS, MIDDLE, OLDEST, YOUNGEST, Garbage, State, collector_off_during_start, tuned_collector
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces.activity import Activity
from topicpolicies_server.process import run
from topicpolicies_server.rpc.server import Server


@pytest.fixture(autouse=True)
def aside() -> Iterator[None]:
    """Sets the objects of the test process aside again after each test."""
    yield
    gc.freeze()


class Clock:
    """A clock that tests advance."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Circle:
    """A reference cycle, which only a garbage collection finds."""

    def __init__(self) -> None:
        self.itself = self


def circles() -> int:
    return sum(type(each) is Circle for each in gc.get_objects())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def garbage(clock: Clock) -> Iterator[Garbage]:
    """A ``Garbage`` that is called at collections as in a server; only the tests make collections."""
    gc.disable()
    watched = Garbage(clock)
    gc.callbacks.append(watched.searched)
    yield watched
    gc.callbacks.remove(watched.searched)
    gc.enable()


def search(clock: Clock, seconds: float) -> None:
    """Makes a full collection that takes this time by the clock."""

    def passing(phase: str, _: object) -> None:
        if phase == "start":
            clock.now += seconds

    gc.callbacks.append(passing)
    gc.collect()
    gc.callbacks.remove(passing)


def aside_of(what: list[object]) -> bool:
    """Whether an object is set aside from collections."""
    return not any(each is what for each in gc.get_objects())


def test_objects_that_a_load_has_made_are_set_aside(garbage: Garbage) -> None:
    loaded: list[object] = [[]]
    assert not aside_of(loaded)
    garbage.loaded()
    assert aside_of(loaded)


def test_objects_that_a_long_full_collection_has_left_are_set_aside(garbage: Garbage, clock: Clock) -> None:
    left: list[object] = [[]]
    search(clock, LONG_SECONDS / 2)
    assert not aside_of(left) and garbage.state is State.ASIDE
    search(clock, 2 * LONG_SECONDS)
    assert aside_of(left)


@pytest.mark.parametrize("meanwhile", [lambda _: None, Garbage.loaded, Garbage.let_go], ids=["nothing", "loaded", "let go of more"])
def test_a_cycle_of_released_documents_is_collected_although_it_was_set_aside(
    garbage: Garbage, clock: Clock, meanwhile: Callable[[Garbage], None]
) -> None:
    circle = Circle()
    garbage.loaded()
    del circle
    search(clock, 0.0)
    assert circles() == 0, "the cycle is set aside"
    garbage.let_go()
    assert garbage.state is State.SEARCHING
    meanwhile(garbage)
    assert circles() == 1, "the cycle is still to be collected"
    stays: list[object] = [[]]
    search(clock, 0.0)
    gc.unfreeze()
    assert circles() == 0
    gc.freeze()
    assert aside_of(stays)
    assert [garbage.state] == [State.ASIDE]


def test_a_namespace_calls_the_hooks_when_it_is_loaded_and_when_its_documents_are_released() -> None:
    calls: list[str] = []

    async def scenario(bench: Bench) -> None:
        activity = bench.registry.activity
        activity.on_load, activity.on_let_go = lambda: calls.append("loaded"), lambda: calls.append("let go")
        await bench.set(1)
        assert calls == ["loaded"]
        bench.opened.lose(LogError(Reason.LOG_LOST, "lost"))
        await bench.set(2)
        assert calls == ["loaded", "loaded"], "the same view is used again"
        bench.storage.recreate(NAMESPACE)
        await bench.set(3)
        assert calls == ["loaded", "loaded", "let go", "loaded"]
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
        assert activity.on_load is not None and activity.on_let_go is not None
        raise KeyError
    assert (gc.get_threshold(), list(gc.callbacks)) == before and activity.on_load is activity.on_let_go is None


def test_the_collector_is_tuned_while_a_server_process_runs() -> None:
    service, seen = Server(ServerConfig(log=EmbeddedLogConfig(path=None), listen=Address("127.0.0.1", 0))), []

    def started(_: Server) -> None:
        seen.append(gc.get_threshold())
        os.kill(os.getpid(), signal.SIGTERM)

    before = gc.get_threshold()
    run(lambda: service, started)
    assert seen == [(YOUNGEST, MIDDLE, OLDEST)] and gc.get_threshold() == before


def test_the_collector_is_off_while_checkpoints_are_read() -> None:
    activity = Activity()
    with tuned_collector(activity):
        with activity.restoring():
            with pytest.raises(KeyError), activity.restoring():
                raise KeyError
            assert not gc.isenabled(), "another checkpoint is still being read"
        assert gc.isenabled()
        reading = activity.restoring()
        reading.__enter__()
    assert gc.isenabled() and activity.on_restore is None
    reading.__exit__(None, None, None)
    assert gc.isenabled()


def test_the_collector_is_off_while_a_process_starts() -> None:
    with pytest.raises(KeyError), collector_off_during_start():
        assert not gc.isenabled()
        with tuned_collector(Activity()):
            assert gc.isenabled()
        raise KeyError
    assert gc.isenabled()
