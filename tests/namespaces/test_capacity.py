"""The limits of what is kept in memory: namespaces, policy keys and documents, in all namespaces together."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

import pytest

from tests.core.views import heads_of
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies import documents
from topicpolicies_server.core.policies.events import Action, Event, Placed, Remembered, Stamp, StampKind
from topicpolicies_server.core.reading.tokens import Mode, Selection
from topicpolicies_server.core.reading.view import CellsInUse, View
from topicpolicies_server.namespaces.common import DOCUMENT_BYTES, KEY_BYTES

from .bench import KEY, NAMESPACE, Bench, document, error_of, simulate

SMALL = KEY_BYTES + DOCUMENT_BYTES * documents.size(document(max_producer_per_topic=1))
"""Bytes that a key takes whose document has one small value."""


def _key(namespace: str, number: int) -> PolicyKey:
    return PolicyKey(f"persistent://{namespace}/{number}", Scope.LOCAL)


def _written(bench: Bench, namespace: str, keys: int) -> None:
    for number in range(keys):
        bench.storage.write(namespace, Event(_key(namespace, number), Action.UPDATE, document(max_producer_per_topic=1)))


def _loaded(bench: Bench) -> set[str]:
    return {namespace.name for namespace in bench.registry.namespaces()}


def _kept(bench: Bench) -> int:
    return sum(namespace.documents for namespace in bench.registry.namespaces())


def _counted(bench: Bench) -> float:
    return bench.registry.common.bytes / SMALL


def _lines_of_capacity(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Returns the lines in the server's log about its memory."""
    return [record.getMessage() for record in caplog.records if record.name.endswith(".registry")]


# Namespaces


def test_the_idlest_namespace_is_closed_for_a_new_one() -> None:
    async def scenario(bench: Bench) -> None:
        for name in ("acme/a", "acme/b", "acme/c"):
            await bench.registry.get(name).ready()
            await asyncio.sleep(1)
        await bench.registry.get("acme/a").ready()
        await bench.registry.get("acme/d").ready()
        assert _loaded(bench) == {"acme/a", "acme/c", "acme/d"}
        await bench.registry.get("acme/b").ready()  # it is loaded again when it is used
        assert _loaded(bench) == {"acme/a", "acme/b", "acme/d"}

    simulate(scenario, max_loaded_namespaces=3, namespace_idle_seconds=600.0)


def test_a_namespace_in_use_is_not_closed_for_a_new_one() -> None:
    async def scenario(bench: Bench) -> None:
        watched = bench.registry.get("acme/watched")
        watcher = await watched.watch(Selection(None), Mode.LATEST, None, lambda: None)
        bench.registry.get("acme/held").hold(bench)
        await bench.set(1)
        bench.opened.answers[0].hold()
        bench.opened.reads[0].hold()
        under_way = bench.setting(2)
        bench.log.opening_seconds = 1.0
        loading = asyncio.ensure_future(bench.registry.get("acme/loading").ready())
        await asyncio.sleep(0.1)
        with pytest.raises(PolicyError) as caught:
            bench.registry.get("acme/new")
        assert (caught.value.kind, caught.value.reason) == (Kind.RESOURCE_EXHAUSTED, "LIMIT_REACHED")
        assert "max_loaded_namespaces" in caught.value.message
        bench.opened.answers[0].release()
        await asyncio.gather(under_way, loading)
        watched.unwatch(watcher)
        await bench.registry.get("acme/new").ready()
        assert len(bench.registry) == 4 and _loaded(bench) >= {"acme/new", "acme/held"}

    simulate(scenario, max_loaded_namespaces=4, namespace_idle_seconds=600.0, update_timeout_seconds=60.0)


# Keys and bytes


def test_idle_namespaces_are_closed_for_the_keys_of_a_new_one_the_idlest_first() -> None:
    async def scenario(bench: Bench) -> None:
        for name in ("acme/a", "acme/b", "acme/c"):
            _written(bench, name, 30)
            await bench.registry.get(name).ready()
            await asyncio.sleep(1)
        assert (_counted(bench), _kept(bench)) == (90, 90)
        _written(bench, "acme/d", 35)
        await bench.registry.get("acme/d").ready()
        assert _loaded(bench) == {"acme/b", "acme/c", "acme/d"}
        assert (_counted(bench), _kept(bench)) == (95, 95)

    simulate(scenario, max_loaded_document_bytes=100 * SMALL, namespace_idle_seconds=600.0)


def test_if_all_namespaces_are_in_use_a_load_beyond_the_limit_is_refused() -> None:
    async def scenario(bench: Bench) -> None:
        _written(bench, NAMESPACE, 60)
        await bench.namespace.watch(Selection(None), Mode.LATEST, None, lambda: None)
        _written(bench, "acme/large", 50)
        error = await error_of(bench.registry.get("acme/large").ready())
        assert (error.kind, error.reason) == (Kind.RESOURCE_EXHAUSTED, "LIMIT_REACHED")
        assert "max_loaded_document_bytes" in error.message and "acme/large" in error.message
        await asyncio.sleep(1)
        assert _counted(bench) == 60
        assert (await bench.set(2, key=_key(NAMESPACE, 3))).version
        _written(bench, "acme/small", 40)
        await bench.registry.get("acme/small").ready()
        assert _counted(bench) == 100

    simulate(scenario, max_loaded_document_bytes=100 * SMALL, namespace_idle_seconds=600.0)


def test_only_updates_that_would_create_a_key_beyond_the_limit_are_refused() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(5):
            await bench.set(1, key=_key(NAMESPACE, number))
        error = await error_of(bench.set(1, key=_key(NAMESPACE, 5)))
        assert (error.kind, error.reason) == (Kind.RESOURCE_EXHAUSTED, "LIMIT_REACHED")
        assert "max_loaded_document_bytes" in error.message
        assert (await bench.set(2, key=_key(NAMESPACE, 4))).version
        assert (await bench.set(2, key=_key(NAMESPACE, 5), validate_only=True)).outcome.name == "WOULD_APPLY"
        assert await bench.value(_key(NAMESPACE, 5)) is None and len(bench.ids()) == 6
        bench.elsewhere(7, _key(NAMESPACE, 9))  # keys that other writers create are still read
        await asyncio.sleep(0.1)
        assert await bench.value(_key(NAMESPACE, 9)) == 7

    simulate(scenario, max_loaded_document_bytes=5 * SMALL)


def test_idle_namespaces_are_closed_for_keys_that_updates_create() -> None:
    async def scenario(bench: Bench) -> None:
        _written(bench, "acme/idle", 50)
        await bench.registry.get("acme/idle").ready()
        await asyncio.sleep(1)
        for number in range(60):
            await bench.set(1, key=_key(NAMESPACE, number))
        assert _loaded(bench) == {NAMESPACE} and _counted(bench) == 60

    simulate(scenario, max_loaded_document_bytes=100 * SMALL, namespace_idle_seconds=600.0)


def test_idle_namespaces_are_closed_for_keys_that_other_writers_create(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        for name in ("acme/a", "acme/b"):
            _written(bench, name, 30)
            await bench.registry.get(name).ready()
            await asyncio.sleep(1)
        await bench.namespace.watch(Selection(None), Mode.LATEST, None, lambda: None)
        for number in range(60):
            bench.elsewhere(1, _key(NAMESPACE, number))
            await asyncio.sleep(0.1)
        assert _loaded(bench) == {NAMESPACE, "acme/b"} and _counted(bench) == _kept(bench) == 90
        assert not bench.registry.common.over_capacity and _lines_of_capacity(caplog) == []

    simulate(scenario, sole_writer=False, max_loaded_document_bytes=100 * SMALL, namespace_idle_seconds=600.0)


@pytest.mark.parametrize(("subscriptions", "requests"), [(0, 1), (0, 16), (2, 1), (10, 16), (50, 1)])
def test_the_estimated_memory_is_within_half_and_twice_of_the_actual_memory(subscriptions: int, requests: int) -> None:
    keys = 300

    def event(number: int) -> Event:
        policies = TopicPolicies(max_producer_per_topic=1 + number, message_ttl_in_seconds=3_600)
        for other in range(subscriptions):
            policies.subscription_policies[f"subscription-{other:04d}"].dispatch_rate.dispatch_throttling_rate_in_msg = 100
        known = [Remembered(f"{number:016x}{other:016x}", f"{number:016x}", f"3{1_000 + other}", "0") for other in range(requests)]
        mask, last = ("max_producer_per_topic", "message_ttl_in_seconds", "subscription_policies"), known[-1]
        stamp = Stamp(f"{number:032x}", StampKind.UPDATE, last.request_id, last.digest, "deployer", mask=mask, remembered=tuple(known[:-1]))
        return Event(_key("acme/orders", 10_000_000 + number), Action.UPDATE, documents.split(policies), stamp)

    event(0)
    gc.collect()
    tracemalloc.start()
    try:
        view = View(FoldContext(joining=True, sole_writer=True), in_use=CellsInUse(0))
        for number in range(keys):
            view.fold(Placed(0, f"4{10_000 + number}", event(number), 1_790_000_000_000 + number))
        view.limit()
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = sum(documents.size(head.document or {}) for head in heads_of(view))
    assert view.head_count == keys and view.document_bytes == size > 0
    estimate = keys * KEY_BYTES + size * DOCUMENT_BYTES
    assert taken / 2 < estimate < 2 * taken, (taken, estimate)


def test_the_bytes_of_large_documents_are_bounded() -> None:
    async def scenario(bench: Bench) -> None:
        large = {**document(max_producer_per_topic=1), "subscription_policies": b"s" * 20_000}
        for number in range(4):
            bench.storage.write(NAMESPACE, Event(_key(NAMESPACE, number), Action.UPDATE, large))
        error = await error_of(bench.namespace.ready())
        assert error.kind is Kind.RESOURCE_EXHAUSTED and "max_loaded_document_bytes" in error.message
        await asyncio.sleep(1)
        assert bench.registry.common.bytes == 0
        await bench.registry.get("acme/other").ready()

    simulate(scenario, max_loaded_document_bytes=65_536)


def test_a_namespace_that_was_served_is_read_again_although_there_is_no_room() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(10):
            await bench.set(1, key=_key(NAMESPACE, number))
        bench.elsewhere(1, KEY)
        bench.storage.compact(NAMESPACE)
        bench.storage.lose(NAMESPACE)
        await asyncio.sleep(5)
        assert await bench.value(KEY) == 1 and len(bench.log.openings) == 2

    simulate(scenario, sole_writer=False, max_loaded_document_bytes=10 * SMALL, join_patience_seconds=0.0)
