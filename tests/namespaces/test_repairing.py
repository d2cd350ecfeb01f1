"""Repairs of one namespace: at a bounded rate, paused, withheld and refused; and what is logged and kept of them."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any

import pytest

from tests.memory_log import MemoryNamespaceLog
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Action, Event, Stamp, StampKind
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces.activity import Repair
from topicpolicies_server.namespaces.namespace import Phase

from .bench import KEY, NAMESPACE, OTHER, REFUSED, Bench, document, error_of, simulate

UNREACHABLE = LogError(LogState.UNREACHABLE, "The change log can't be reached.")
GONE = LogError(Reason.NAMESPACE_NOT_FOUND, "The namespace does not exist.", kind=Kind.NOT_FOUND)


def written(bench: Bench, kind: StampKind = StampKind.REPAIR) -> int:
    """Returns the number of repairs in the log."""
    entries = bench.storage.namespace(NAMESPACE).entries[0]
    return sum(placed.event is not None and placed.event.stamp is not None and placed.event.stamp.kind is kind for placed in entries)


async def conflict(bench: Bench, key: Any = KEY) -> None:
    """Writes two updates of a broker that were computed from the same document."""
    await bench.namespace.ready()  # so that the view has all events of the key
    bench.elsewhere(1, key)
    bench.elsewhere(1, key, max_consumer_per_topic=2)
    bench.storage.write(NAMESPACE, Event(key, Action.UPDATE, document(max_producer_per_topic=3)))
    await asyncio.sleep(0.001)


def test_a_setting_that_a_stale_document_undid_is_repaired_and_reported_with_its_cause() -> None:
    async def scenario(bench: Bench) -> None:
        reported: list[tuple[Repair, bool]] = []
        bench.registry.common.activity.on_repair = lambda repair, published: reported.append((repair, published))
        await conflict(bench)
        assert bench.namespace.repairs_due == 1
        await asyncio.sleep(1)
        assert written(bench) == 1 and bench.namespace.repairs_due == 0
        ((repair, published),) = reported
        assert published and repair.key == KEY and repair.namespace == NAMESPACE
        assert repair.raw == document(max_producer_per_topic=3)
        assert repair.after == document(max_producer_per_topic=3, max_consumer_per_topic=2)
        assert repair.cause is not None and repair.cause.position == repair.version
        activity = bench.registry.common.activity
        assert activity.repairs == {"published": 1}
        assert activity.conflicts == {"broker": 1} and activity.events["broker", "applied"] == 3

    simulate(scenario, sole_writer=False)


def test_a_conflict_right_after_a_start_is_repaired_as_soon_as_at_any_other_time() -> None:
    async def scenario(bench: Bench) -> None:
        bench.elsewhere(1)
        bench.storage.compact(NAMESPACE)
        reported: list[Repair] = []
        bench.registry.common.activity.on_repair = lambda repair, _: reported.append(repair)
        await bench.namespace.ready()  # recent events may be computed from events that were compacted away
        bench.elsewhere(1, max_consumer_per_topic=2)
        bench.storage.write(NAMESPACE, Event(KEY, Action.UPDATE, document(max_producer_per_topic=3)))
        await asyncio.sleep(0.001)
        assert bench.namespace.repairs_due == 1
        await asyncio.sleep(0.1)
        assert written(bench) == 1 and bench.namespace.repairs_due == 0
        (repair,) = reported
        assert repair.cause is not None and repair.cause.position == "13"
        assert repair.after == document(max_producer_per_topic=3, max_consumer_per_topic=2)

    simulate(scenario, sole_writer=False, join_patience_seconds=0.0)


def test_a_log_that_was_read_from_its_beginning_is_repaired_at_once() -> None:
    async def scenario(bench: Bench) -> None:
        bench.elsewhere(1)
        bench.elsewhere(1, max_consumer_per_topic=2)
        bench.storage.write(NAMESPACE, Event(KEY, Action.UPDATE, document(max_producer_per_topic=3)))
        await bench.namespace.ready()
        await asyncio.sleep(1)
        assert written(bench) == 1 and bench.namespace.repairs_due == 0

    simulate(scenario, sole_writer=False)


def test_a_repair_that_another_writer_makes_needless_is_cancelled() -> None:
    async def scenario(bench: Bench) -> None:
        await conflict(bench)
        bench.elsewhere(3, max_consumer_per_topic=2)
        await asyncio.sleep(1)
        assert written(bench) == 0 and bench.registry.common.activity.repairs == {"cancelled": 1}

    simulate(scenario, sole_writer=False)


def test_a_repair_that_restates_an_older_version_is_repaired_although_its_document_is_right() -> None:
    async def scenario(bench: Bench) -> None:
        reported: list[Repair] = []
        bench.registry.common.activity.on_repair = lambda repair, _: reported.append(repair)
        await conflict(bench)
        right = document(max_producer_per_topic=3, max_consumer_per_topic=2)
        late = Stamp(str(uuid.uuid4()), StampKind.REPAIR, head_version=bench.storage.namespace(NAMESPACE).entries[0][1].position)
        bench.storage.write(NAMESPACE, Event(KEY, Action.UPDATE, right, late))  # a repair of another guard, which the last update overtook
        await asyncio.sleep(1)
        (repair,) = reported
        assert repair.raw == repair.after == right and repair.version != late.head_version
        newest = bench.storage.namespace(NAMESPACE).entries[0][-1].event
        assert newest is not None and newest.stamp is not None and newest.stamp.head_version == repair.version
        assert bench.namespace.repairs_due == 0

    simulate(scenario, sole_writer=False)


def test_no_repair_is_published_while_repairs_are_paused_and_all_are_afterwards() -> None:
    async def scenario(bench: Bench) -> None:
        await conflict(bench)
        await conflict(bench, OTHER)
        await asyncio.sleep(5)
        assert written(bench) == 0 and bench.namespace.repairs_due == 2 and bench.registry.repairs.waiting == 2
        assert await bench.value() == 3  # the heads are right meanwhile
        bench.registry.repairs.resume()
        await asyncio.sleep(1)
        assert written(bench) == 2 and bench.namespace.repairs_due == 0

    simulate(scenario, sole_writer=False, pause_repairs=True)


def test_a_key_that_changes_while_its_repair_waits_is_repaired_once() -> None:
    async def scenario(bench: Bench) -> None:
        await conflict(bench)
        for value in range(10, 20):
            await asyncio.sleep(0.1)
            bench.storage.write(NAMESPACE, Event(KEY, Action.UPDATE, document(max_producer_per_topic=value)))
        await asyncio.sleep(0.1)
        assert len(bench.registry.repairs._queue) < 5
        bench.registry.repairs.resume()
        await asyncio.sleep(1)
        assert written(bench) == 1 and await bench.value() == 19

    simulate(scenario, sole_writer=False, pause_repairs=True)


def test_the_rate_of_repairs_is_bounded() -> None:
    async def scenario(bench: Bench) -> None:
        keys = [KEY._replace(topic=f"persistent://acme/orders/{number}") for number in range(12)]
        for key in keys:
            await conflict(bench, key)
        await asyncio.sleep(0.3)
        early = written(bench)
        assert 4 <= early <= 7  # a burst of one second, and those of three tenths
        await asyncio.sleep(3)
        assert written(bench) == 12

    simulate(scenario, sole_writer=False, max_repairs_per_second=4.0)


def test_a_read_only_server_refuses_updates_and_withholds_repairs() -> None:
    async def scenario(bench: Bench) -> None:
        await conflict(bench)
        await asyncio.sleep(1)
        entries = len(bench.ids())
        error = await error_of(bench.set(5))
        assert error.kind is Kind.FAILED_PRECONDITION and error.reason == "READ_ONLY" and error.metadata == {"namespace": NAMESPACE}
        assert (await bench.set(5, validate_only=True)).outcome.name == "WOULD_APPLY"
        assert len(bench.ids()) == entries and await bench.value() == 3
        activity = bench.registry.common.activity
        assert activity.repairs == {"withheld": 1} and activity.updates == {"READ_ONLY": 1, "WOULD_APPLY": 1}

    simulate(scenario, sole_writer=False, read_only=True)


def test_a_repair_that_the_log_can_not_express_is_not_tried_again_until_its_key_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    def refuse(self: MemoryNamespaceLog, event: Event) -> None:
        nonlocal tries
        tries += 1
        raise LogError(Reason.NOT_EXPRESSIBLE, "Not in this dialect.", kind=Kind.FAILED_PRECONDITION)

    monkeypatch.setattr(MemoryNamespaceLog, "append", refuse)

    async def scenario(bench: Bench) -> None:
        await conflict(bench)
        await asyncio.sleep(10)
        assert tries == 1 and bench.registry.common.activity.repairs == {"refused": 1}
        bench.storage.write(NAMESPACE, Event(KEY, Action.UPDATE, document(max_producer_per_topic=4)))
        await asyncio.sleep(10)
        assert tries == 2

    simulate(scenario, sole_writer=False)


def test_an_unexplained_event_is_counted_and_logged_with_before_and_after(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.namespace.ready()
        bench.elsewhere(2)
        bench.storage.write(NAMESPACE, Event(KEY, Action.UPDATE, document(max_consumer_per_topic=7, max_subscriptions_per_topic=8)))
        await asyncio.sleep(1)
        assert bench.registry.common.activity.unexplained == 1

    with caplog.at_level(logging.WARNING):
        simulate(scenario, sole_writer=False)
    (line,) = [record.getMessage() for record in caplog.records if "unexplained" in record.getMessage()]
    assert "max_consumer_per_topic: unset -> 7; max_subscriptions_per_topic: unset -> 8" in line


def test_a_held_namespace_stays_loaded_and_is_repaired_without_callers() -> None:
    async def scenario(bench: Bench) -> None:
        namespace = bench.namespace
        namespace.hold(bench)
        await asyncio.sleep(30)
        await conflict(bench)
        await asyncio.sleep(1)
        assert written(bench) == 1 and bench.namespace is namespace
        namespace.release(bench)
        await asyncio.sleep(30)
        assert len(bench.registry) == 0

    simulate(scenario, sole_writer=False, namespace_idle_seconds=2.0)


def test_a_held_namespace_is_retried_until_it_is_loaded() -> None:
    async def scenario(bench: Bench) -> None:
        bench.log.refusals = [LogError(LogState.UNREACHABLE, "Not now.")] * 5
        bench.namespace.hold(bench)
        await asyncio.sleep(20)
        assert bench.registry.common.activity.loads == {"failed": 5, "loaded": 1} and len(bench.registry) == 1

    simulate(scenario, sole_writer=False)


def test_a_deleted_namespace_is_dropped_with_its_due_repairs() -> None:
    async def scenario(bench: Bench) -> None:
        await conflict(bench)
        namespace = bench.namespace
        await asyncio.sleep(0.1)
        assert namespace.repairs_due == 1, "precondition: a repair waits at the gate"
        bench.log.refusals = [GONE] * 100
        bench.opened.lose(GONE)
        await asyncio.sleep(2)
        assert len(bench.registry) == 0 and namespace.repairs_due == 0 and bench.registry.repairs.waiting == 0

    simulate(scenario, sole_writer=False, pause_repairs=True)


def _conflicts(bench: Bench, count: int) -> list[PolicyKey]:
    """Writes so many keys whose newest raw documents differ from their heads."""
    keys = [PolicyKey(f"{KEY.topic}-{number}", KEY.scope) for number in range(count)]
    for key in keys:
        bench.elsewhere(1, key)
        bench.elsewhere(1, key, max_consumer_per_topic=2)
        bench.storage.write(NAMESPACE, Event(key, Action.UPDATE, document(max_producer_per_topic=3)))
    return keys


def test_due_repairs_cost_nothing_while_the_log_is_unreachable_and_are_published_afterwards() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.namespace.ready()
        keys = _conflicts(bench, 2_000)
        await asyncio.sleep(0.001)
        assert bench.namespace.repairs_due == len(keys), "precondition"
        bench.log.refusals = [UNREACHABLE] * 100
        bench.opened.lose(UNREACHABLE)
        await asyncio.sleep(1)
        before = bench.loop.steps
        await asyncio.sleep(20)
        assert bench.namespace.phase is not Phase.READY and bench.namespace.repairs_due == len(keys)
        assert bench.loop.steps - before < 1_000, "only attempts to open the log, and no work for each key"
        bench.log.refusals = []
        await asyncio.sleep(30)
        assert bench.namespace.repairs_due == 0 and written(bench) == len(keys)

    simulate(scenario, sole_writer=False, max_repairs_per_second=10_000.0)


def test_repairs_that_find_the_log_busy_are_retried_within_the_rate_of_repairs(monkeypatch: pytest.MonkeyPatch) -> None:
    append, tries, busy = MemoryNamespaceLog.append, 0, True

    def refuse(self: MemoryNamespaceLog, event: Event) -> None:
        nonlocal tries
        tries += 1
        if busy:
            raise LogError(Reason.LIMIT_REACHED, "Too many.", kind=Kind.RESOURCE_EXHAUSTED)
        append(self, event)

    monkeypatch.setattr(MemoryNamespaceLog, "append", refuse)

    async def scenario(bench: Bench) -> None:
        nonlocal busy
        await bench.namespace.ready()
        keys = _conflicts(bench, 500)
        await asyncio.sleep(10)
        assert 200 <= tries <= 230, "twenty a second, after a burst"
        bench.elsewhere(3, keys[0], max_consumer_per_topic=2)  # makes the repair that is retried needless
        await asyncio.sleep(1)
        busy = False
        await asyncio.sleep(30)
        assert bench.namespace.repairs_due == 0 and written(bench) == len(keys) - 1

    simulate(scenario, sole_writer=False, max_repairs_per_second=20.0)


def test_repairs_that_the_log_refuses_after_it_took_them_are_retried_once_a_second() -> None:
    """A Pulsar producer without permission, or a full disk, is told only then."""

    async def scenario(bench: Bench) -> None:
        await bench.namespace.ready()
        many = 1_000
        bench.faults.fates = [REFUSED] * many
        keys = _conflicts(bench, 50)
        await asyncio.sleep(10)
        assert 400 <= many - len(bench.faults.fates) <= 550, "each once a second"
        assert bench.namespace.repairs_due == len(keys)
        bench.faults.fates = []
        await asyncio.sleep(2)
        assert bench.namespace.repairs_due == 0 and written(bench) == len(keys)

    simulate(scenario, sole_writer=False, max_repairs_per_second=10_000.0)


def test_a_repair_of_a_key_with_updates_in_flight_waits_for_them_without_polling() -> None:
    async def scenario(bench: Bench) -> None:
        await conflict(bench)
        bench.opened.answers[0].hold()
        bench.opened.reads[0].hold()
        under_way = bench.setting(9, field="max_subscriptions_per_topic")
        await asyncio.sleep(0.5)
        before = bench.loop.steps
        await asyncio.sleep(10)
        assert bench.loop.steps - before < 60 and written(bench) == 0, "the repair is not polled"
        bench.opened.reads[0].release()
        bench.opened.answers[0].release()
        await under_way
        await asyncio.sleep(0.2)
        assert bench.namespace.repairs_due == 0

    simulate(scenario, sole_writer=False, update_timeout_seconds=60.0, bookmark_interval_seconds=600.0)


def test_a_repair_that_fails_unexpectedly_is_logged_and_does_not_delay_others(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.namespace.ready()
        original = bench.opened.append

        def append(event: Event) -> None:
            if event.key == KEY:
                raise RuntimeError("planted")
            original(event)

        bench.opened.append = append  # type: ignore[method-assign]
        await conflict(bench)
        await conflict(bench, OTHER)
        assert bench.namespace.repairs_due == 2
        bench.registry.repairs.resume()
        await asyncio.sleep(5)
        assert bench.namespace.repairs_due == 0 and not bench.namespace.busy
        assert written(bench) == 1 and bench.registry.repairs.waiting == 0

    simulate(scenario, sole_writer=False, pause_repairs=True, max_repairs_per_second=1)
    assert "planted" in caplog.text and KEY.topic in caplog.text
