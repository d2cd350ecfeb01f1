"""How a log on a real broker is created, is followed, and ends."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Any

import pulsar
import pytest

from tests.broker.admin import CHANGE_EVENTS
from tests.broker.pulsar_broker import OwnBroker
from tests.eventually import eventually
from tests.logs.pulsar.conftest import QUICK, Following
from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, a_large_document, a_tombstone, an_update
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed
from topicpolicies_server.logs.change_log import LogError, Start, anchor_of
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog, PulsarNamespaceLog
from topicpolicies_server.logs.pulsar import reader as reading
from topicpolicies_server.logs.pulsar.ids import place_of


def place_in(log: PulsarNamespaceLog, entries: list[Placed]) -> Start:
    """Returns the ``Start`` of an opener that knows these entries of a log."""
    last = {placed.partition: placed for placed in entries}
    there = [last[partition] for partition in range(log.partitions)]
    return Start(log.identity, tuple(placed.position for placed in there), tuple(map(anchor_of, there)), log.in_place)


# Creation


@pytest.mark.parametrize("namespace", ["public/never-made", "nobody/never-made"])
async def test_a_namespace_that_does_not_exist_is_not_found(following: Following, namespace: str) -> None:
    with pytest.raises(LogError) as refused:
        await following.open(namespace)
    assert refused.value.kind is Kind.NOT_FOUND


async def test_the_namespaces_setting_determines_the_number_of_partitions_of_a_new_log(following: Following, namespace: str) -> None:
    rule = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 4}
    await following.ask("POST", f"namespaces/{namespace}/autoTopicCreation", rule)
    log, recorder = await following.open(namespace)
    assert log.partitions == 4
    recorder.append(log, an_update(a_key(namespace)))
    await recorder.until_settled(1)
    assert await following.topics(namespace) == [f"{CHANGE_EVENTS}-partition-{n}" for n in range(4)]
    assert recorder.losses == []


async def test_a_log_that_is_created_with_other_partitions_than_expected_is_lost_and_can_be_opened_again(
    following: Following, namespace: str
) -> None:
    change_log = following.start()
    log, recorder = await following.open(namespace, change_log)
    assert log.partitions == 1
    await asyncio.to_thread(following.admin.partition_change_events, namespace, 3)
    recorder.append(log, an_update(a_key(namespace)))
    await recorder.until(lambda: bool(recorder.losses))
    assert recorder.losses[0].reason == "LOG_UNAVAILABLE"
    assert [error.outcome_unknown for _, error in recorder.failures] == [False]
    again, second = await following.open(namespace, change_log)
    assert again.partitions == 3
    second.append(again, an_update(a_key(namespace)))
    await second.until_settled(1)


async def test_a_namespace_can_be_open_only_once_at_a_time(following: Following, namespace: str) -> None:
    change_log = following.start()
    await following.open(namespace, change_log)
    with pytest.raises(LogError) as refused:
        await following.open(namespace, change_log)
    assert refused.value.reason == "LOG_UNAVAILABLE"


# Following


@pytest.mark.parametrize("partitions", [0, 3])
async def test_a_log_whose_newest_entry_was_compacted_away_catches_up(following: Following, namespace: str, partitions: int) -> None:
    if partitions:
        await asyncio.to_thread(following.admin.partition_change_events, namespace, partitions)
    change_log = following.start(limits=dataclasses.replace(QUICK, recalled=0))
    log, recorder = await following.open(namespace, change_log)
    for n in range(6):
        recorder.append(log, an_update(a_key(namespace, n), event_id=f"{n}"))
    for n in range(3):
        recorder.append(log, a_tombstone(a_key(namespace, n)))
    await recorder.until_settled(9)
    await recorder.close(log)
    await asyncio.to_thread(following.admin.compact_change_events, namespace)
    log, again = await following.open(namespace, change_log)
    assert sorted(again.ids()) == ["3", "4", "5"]
    assert all(log.complete_after(partition) for partition in range(log.partitions))
    assert all(placed.position <= str(log.complete_after(placed.partition)) for placed in again.entries)
    again.append(log, an_update(a_key(namespace, 0), event_id="6"))
    await again.until_settled(1)
    assert sorted(again.ids()) == ["3", "4", "5", "6"]
    assert again.entries[-1].position > str(log.complete_after(again.entries[-1].partition))


async def test_a_reader_that_compaction_overtook_reads_everything_that_still_stands(following: Following, namespace: str) -> None:
    recorder = await overtaken(following, namespace, following.start(limits=PulsarLimits(received=1, recalled=0)))
    await recorder.until(lambda: "9" in recorder.ids())
    assert recorder.ids() == ["mine", *map(str, range(10))] and recorder.losses == []


async def test_a_reader_whose_ledger_was_compacted_and_deleted_loses_the_log(following: Following, namespace: str) -> None:
    change_log = following.start(limits=PulsarLimits(received=1, recalled=0))
    recorder = await overtaken(following, namespace, change_log, trimmed=True)
    await recorder.until(lambda: bool(recorder.losses))
    assert recorder.losses[0].reason == "LOG_UNAVAILABLE"
    assert recorder.ids()[:2] == ["mine", "0"]
    assert "9" not in recorder.ids()
    _, again = await following.open(namespace, change_log)
    assert again.ids() == ["9", "last"]


async def overtaken(following: Following, namespace: str, change_log: PulsarLog, *, trimmed: bool = False) -> Recorder:
    """Holds a reader while a compaction overtakes it, and then releases it; ``trimmed``: once its ledger was deleted as well."""
    key = a_key(namespace)
    log, recorder = await following.open(namespace, change_log)
    recorder.append(log, an_update(key, event_id="mine"))
    await recorder.until_settled(1)
    (reader,) = log._readers
    hand_over, gate = reader._hand_over, asyncio.Event()

    async def held(*arguments: Any, **named: Any) -> None:
        await gate.wait()
        await hand_over(*arguments, **named)

    reader._hand_over = held  # type: ignore[method-assign]  # only a message or two are in transit to a reader that is held
    foreign = following.foreign()
    for n in range(10):
        await asyncio.to_thread(foreign.write, namespace, an_update(key, n, event_id=f"{n}"))
    await asyncio.to_thread(following.admin.compact_change_events, namespace)
    if trimmed:
        await following.ask("PUT", f"persistent/{namespace}/{CHANGE_EVENTS}/unload")
        await asyncio.to_thread(foreign.write, namespace, an_update(a_key(namespace, 1), event_id="last"))

        async def deleted() -> bool:
            stats = await following.ask("GET", f"persistent/{namespace}/{CHANGE_EVENTS}/internalStats")
            return len(stats["ledgers"]) == 1

        await eventually(deleted)
    gate.set()
    return recorder


@pytest.mark.stages_compaction
@pytest.mark.parametrize("partitions", [0, 3])
async def test_a_new_reader_reads_compacted_entries_as_they_were(following: Following, namespace: str, partitions: int) -> None:
    if partitions:
        await asyncio.to_thread(following.admin.partition_change_events, namespace, partitions)
    log, recorder = await following.open(namespace)
    for number in range(60):
        recorder.append(log, an_update(a_key(namespace, number % 4), number, event_id=f"{number}"))
    await recorder.until_settled(60)
    await recorder.until(lambda: len(recorder.entries) == 60)
    await asyncio.to_thread(following.admin.compact_change_events, namespace)
    recorder.append(log, an_update(a_key(namespace, 1), 60, event_id="60"))
    await recorder.until_settled(61)
    _, whole = await following.open(namespace)
    assert sorted(whole.ids(), key=int) == [str(number) for number in range(61)]
    for limits, fewest in ((dataclasses.replace(QUICK, recalled=0), 5), (dataclasses.replace(QUICK, recalled=7), 8)):
        _, compacted = await following.open(namespace, following.start(limits=limits))
        assert fewest <= len(compacted.entries) < 40, "the test needs entries that were compacted away"
        positions = {placed.position for placed in whole.entries}
        assert {placed.position for placed in compacted.entries} <= positions


async def test_a_reader_that_keeps_up_is_not_disturbed_by_compaction_and_unloading(following: Following, namespace: str) -> None:
    log, recorder = await following.open(namespace)
    for turn in range(3):
        for n in range(4):
            recorder.append(log, an_update(a_key(namespace, n), event_id=f"{turn}-{n}"))
        await recorder.until_settled(4 * turn + 4)
        await asyncio.to_thread(following.admin.compact_change_events, namespace)
        await log.check()
        await following.ask("PUT", f"persistent/{namespace}/{CHANGE_EVENTS}/unload")
    recorder.append(log, an_update(a_key(namespace), event_id="last"))
    await recorder.until_settled(13)
    assert recorder.losses == []
    assert recorder.ids()[-1] == "last"
    assert len({place_of(placed.position).ledger for placed in recorder.entries}) > 1


async def test_an_event_that_the_library_drops_is_noticed_and_read(following: Following, namespace: str) -> None:
    log, recorder = await following.open(namespace)
    recorder.append(log, an_update(a_key(namespace), event_id="mine"))
    await recorder.until_settled(1)
    (reader,) = log._readers
    receiver = reader._receiver
    received, swallowed = receiver._received, 0

    def swallow(result: Any, message: Any) -> None:
        nonlocal swallowed
        if message is not None and message.partition_key() == a_key(namespace, 1).topic:
            swallowed += 1
            reader.handle.read_next_async(swallow)
        else:
            received(result, message)

    receiver._received = swallow  # type: ignore[method-assign]
    foreign = following.foreign()
    for n in range(3):
        await asyncio.to_thread(foreign.write, namespace, an_update(a_key(namespace, n), event_id=f"{n}"))
    await recorder.until(lambda: len(recorder.entries) == 4)
    assert swallowed == 1 and recorder.losses == []
    assert recorder.ids() == ["mine", "0", "1", "2"]


async def test_a_reopened_reader_resumes_where_the_former_one_stood(
    following: Following, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_STUCK_SECONDS", 0.2)
    log, recorder = await following.open(namespace)
    for n in range(12):
        recorder.append(log, an_update(a_key(namespace, n % 4), event_id=f"{n}"))
    await recorder.until_settled(12)
    await recorder.until(lambda: len(recorder.entries) == 12)
    await asyncio.to_thread(following.admin.compact_change_events, namespace)
    second, entries = await following.open(namespace, following.start(limits=dataclasses.replace(QUICK, recalled=0)))
    assert entries.ids() == ["8", "9", "10", "11"]
    (reader,) = second._readers
    former, last = reader.handle, reader.entries.last
    reader.end(last._replace(entry=last.entry + 8))  # the broker does not have this entry, so it can't have sent it
    await eventually(lambda: reader.handle is not former)
    for n in range(12, 20):
        recorder.append(log, an_update(a_key(namespace, n % 4), event_id=f"{n}"))
    await recorder.until_settled(20)
    await entries.until(lambda: len(entries.entries) == 12)
    assert entries.ids() == [f"{n}" for n in range(8, 20)] and entries.losses == []
    assert not former.is_connected()


async def test_an_event_that_is_too_large_is_refused_with_a_known_outcome_and_the_next_one_is_stored(
    following: Following, namespace: str
) -> None:
    log, recorder = await following.open(namespace)
    large = Event(a_key(namespace), Action.UPDATE, a_large_document(8_000_000), an_update(a_key(namespace)).stamp)
    recorder.append(log, large)
    recorder.append(log, an_update(a_key(namespace), event_id="small"))
    await recorder.until_settled(2)
    assert [(error.reason, error.outcome_unknown) for _, error in recorder.failures] == [("NOT_EXPRESSIBLE", False)]
    assert recorder.ids() == ["small"]


async def test_an_idle_producer_makes_room_for_an_exclusive_one_and_is_reopened_afterwards(following: Following, namespace: str) -> None:
    log, recorder = await following.open(
        namespace, following.start(limits=PulsarLimits(creation_seconds=0.5, idle_producer_seconds=1.0, send_seconds=3.0))
    )
    recorder.append(log, an_update(a_key(namespace), event_id="first"))
    await recorder.until_settled(1)

    async def nobody_produces() -> bool:
        return not (await following.stats(namespace))["publishers"]

    assert not await nobody_produces()
    await eventually(nobody_produces)
    client = pulsar.Client(following.broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        topic = f"persistent://{namespace}/{CHANGE_EVENTS}"
        exclusive = client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
        recorder.append(log, an_update(a_key(namespace), event_id="refused"))
        await recorder.until(lambda: bool(recorder.failures))
        ((_, error),) = recorder.failures
        assert (error.reason, error.outcome_unknown) == ("LOG_UNAVAILABLE", False)
        exclusive.close()
        recorder.append(log, an_update(a_key(namespace), event_id="second"))
        await recorder.until_settled(3)
        assert recorder.ids() == ["first", "second"]
    finally:
        client.close()


class Appending:
    """Appends events to a log of its own, one after the other, until it is stopped."""

    def __init__(self, log: PulsarNamespaceLog, recorder: Recorder) -> None:
        self.recorder = recorder
        self.appended = 0
        self._task = asyncio.create_task(self._append(log))

    async def _append(self, log: PulsarNamespaceLog) -> None:
        while True:
            recorder, name = self.recorder, f"{self.appended}"
            self.appended += 1
            recorder.append(log, an_update(a_key(log.namespace, self.appended % 7), event_id=name))
            await asyncio.sleep(0.02)

    async def until_acknowledged(self, more: int, seconds: float = 30) -> None:
        goal = len(self.recorder.places) + more
        await self.recorder.until(lambda: len(self.recorder.places) > goal, seconds)

    async def stop(self) -> None:
        """Stops, and waits for the outcomes of all events, and until those that are stored were read."""
        self._task.cancel()
        recorder = self.recorder
        await recorder.until(lambda: len(recorder.places) + len(recorder.failures) == self.appended, 60)
        await recorder.until(lambda: set(recorder.ids(recorder.places)) <= set(recorder.ids()), 120)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
async def test_logs_survive_a_brokers_restart_with_acknowledged_events_intact_and_in_order(
    own_following: Following, own_broker: OwnBroker
) -> None:
    """One whose events wait for longer than the restart takes, and one whose events give up meanwhile."""
    appending: list[Appending] = []
    for send_seconds in (60.0, 1.0):
        namespace = await asyncio.to_thread(own_following.admin.create_namespace)
        limits = PulsarLimits(reconnect_seconds=600, send_seconds=send_seconds)
        appending.append(Appending(*await own_following.open(namespace, own_following.start(limits=limits))))
    await asyncio.gather(*(each.until_acknowledged(50) for each in appending))
    await asyncio.to_thread(own_broker.stop)
    await asyncio.to_thread(own_broker.start)
    await asyncio.gather(*(each.until_acknowledged(50, 200) for each in appending))
    await asyncio.gather(*(each.stop() for each in appending))
    for each in appending:
        recorder = each.recorder
        assert recorder.losses == []
        refused = {event.stamp.event_id for event, error in recorder.failures if event.stamp is not None and not error.outcome_unknown}
        assert not refused & set(recorder.ids())
        read = list(dict.fromkeys(recorder.ids()))  # an event whose acknowledgement was lost may be stored twice
        assert read == sorted(read, key=int)
        assert each.appended - len(recorder.places) == len(recorder.failures)
    assert len(appending[1].recorder.failures) > 50, "events gave up"


# Ending


async def written_to(following: Following, namespace: str, partitions: int) -> tuple[PulsarLog, PulsarNamespaceLog, Recorder]:
    """Opens a log with this number of partitions (0: one topic that is not partitioned), and appends six events."""
    if partitions:
        await asyncio.to_thread(following.admin.partition_change_events, namespace, partitions)
    change_log = following.start()
    log, recorder = await following.open(namespace, change_log)
    for n in range(6):
        recorder.append(log, an_update(a_key(namespace, n)))
    await recorder.until_settled(6)
    return change_log, log, recorder


async def delete(following: Following, namespace: str, partitions: int) -> None:
    """Deletes the topics of a log."""
    await following.ask("DELETE", f"persistent/{namespace}/{CHANGE_EVENTS}" + ("/partitions" if partitions else ""), force="true")


@pytest.mark.parametrize("partitions", [0, 3])
@pytest.mark.parametrize("what", ["topic", "namespace"])
async def test_a_deleted_log_is_lost(following: Following, namespace: str, partitions: int, what: str) -> None:
    change_log, log, recorder = await written_to(following, namespace, partitions)
    identity = log.identity
    if what == "topic":
        await delete(following, namespace, partitions)
    else:
        await following.ask("DELETE", f"namespaces/{namespace}")
    await recorder.until(lambda: bool(recorder.losses))
    (error,) = recorder.losses
    if what == "namespace":
        assert error.reason in ("NAMESPACE_NOT_FOUND", "LOG_UNAVAILABLE"), "brokers delete a namespace's topics first"
        with pytest.raises(LogError) as raised:
            await following.open(namespace, change_log)
        assert (raised.value.kind, raised.value.reason) == (Kind.NOT_FOUND, "NAMESPACE_NOT_FOUND")
        return
    assert error.reason in ("LOG_UNAVAILABLE", "LOG_REPLACED")
    again, second = await following.open(namespace, change_log)
    assert second.entries == []
    assert again.identity != identity


async def test_a_replaced_log_is_noticed_soon_although_its_reader_is_idle(following: Following, namespace: str) -> None:
    log, recorder = await following.open(namespace, following.start(limits=PulsarLimits()))  # these limits check only every 30 s
    recorder.append(log, an_update(a_key(namespace)))
    await recorder.until_settled(1)
    await asyncio.sleep(2)  # until no check is due any more
    began = time.monotonic()
    await following.ask("DELETE", f"persistent/{namespace}/{CHANGE_EVENTS}", force="true")
    await recorder.until(lambda: bool(recorder.losses))
    assert recorder.losses[0].reason in ("LOG_UNAVAILABLE", "LOG_REPLACED")
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("partitions", [0, 3])
@pytest.mark.parametrize("written", ["here", "elsewhere"])
async def test_events_in_a_recreated_log_are_never_read_as_those_of_the_former_log(
    following: Following, namespace: str, partitions: int, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PulsarNamespaceLog, "look", lambda _: False)  # no check happens in time
    change_log, log, recorder = await written_to(following, namespace, partitions)
    former, identity = recorder.ids(), log.identity
    await delete(following, namespace, partitions)
    if partitions:
        await asyncio.to_thread(following.admin.partition_change_events, namespace, partitions)
    event = an_update(a_key(namespace), event_id="later")
    if written == "here":
        recorder.append(log, event)  # the library reconnects, to the recreated log
    else:
        await asyncio.to_thread(following.foreign().write, namespace, event)
    await recorder.until(lambda: bool(recorder.losses))
    assert recorder.losses[0].reason == "LOG_REPLACED"
    assert recorder.ids() == former
    again, second = await following.open(namespace, change_log)
    assert second.ids() == ["later"]
    assert again.identity != identity


@pytest.mark.parametrize("written", ["here", "elsewhere", "nothing"])
async def test_a_log_is_lost_and_gets_another_identity_if_only_one_partition_is_deleted(
    following: Following, partitioned_namespace: str, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = partitioned_namespace
    change_log = following.start()
    log, recorder = await following.open(namespace, change_log)
    keys = [a_key(namespace, n) for n in range(12)]
    for key in keys:
        recorder.append(log, an_update(key))
    await recorder.until_settled(12)
    former, identity = recorder.ids(), log.identity
    (key, *_) = hit = [key for key in keys if log.partition_of(key) == 1]
    place = place_in(log, recorder.entries)
    if written != "nothing":
        monkeypatch.setattr(PulsarNamespaceLog, "look", lambda _: False)  # no check happens in time
    await following.ask("DELETE", f"persistent/{namespace}/{CHANGE_EVENTS}-partition-1", force="true")
    event = an_update(key, event_id="later")
    if written == "here":
        recorder.append(log, event)
    elif written == "elsewhere":
        await asyncio.to_thread(following.foreign().write, namespace, event)
    await recorder.until(lambda: bool(recorder.losses))
    assert recorder.losses[0].reason in ("LOG_UNAVAILABLE", "LOG_REPLACED")
    assert recorder.ids() == former
    again = Recorder()
    following.recorders.append(again)
    opened = await change_log.open(namespace, again, place)
    await again.until_caught_up()
    assert not opened.resumed
    assert opened.identity != identity
    assert len(again.ids()) == len(former) - len(hit) + (written != "nothing")


async def test_a_log_that_gets_more_partitions_is_lost(following: Following, partitioned_namespace: str) -> None:
    log, recorder = await following.open(partitioned_namespace)
    recorder.append(log, an_update(a_key(partitioned_namespace)))
    await recorder.until_settled(1)
    await following.ask("POST", f"persistent/{partitioned_namespace}/{CHANGE_EVENTS}/partitions", 5)
    await recorder.until(lambda: bool(recorder.losses))
    assert recorder.losses[0].reason == "LOG_UNAVAILABLE"


@pytest.mark.slow
@pytest.mark.broker
async def test_closing_takes_bounded_time_if_the_broker_does_not_answer(own_following: Following, own_broker: OwnBroker) -> None:
    namespace = await asyncio.to_thread(own_following.admin.create_namespace)
    change_log = own_following.start()
    log, recorder = await own_following.open(namespace, change_log)
    recorder.append(log, an_update(a_key(namespace)))
    await recorder.until_settled(1)
    own_broker.pause()
    try:
        recorder.append(log, an_update(a_key(namespace), event_id="in flight"))
        began = time.monotonic()
        await change_log.close()
        assert time.monotonic() - began < 15
        assert [error.outcome_unknown for _, error in recorder.failures] == [True]
    finally:
        own_broker.resume()


@pytest.mark.slow
@pytest.mark.broker
async def test_while_a_broker_stays_down_the_log_stays_open_and_events_in_flight_are_reported(
    own_following: Following, own_broker: OwnBroker
) -> None:
    namespace = await asyncio.to_thread(own_following.admin.create_namespace)
    limits = PulsarLimits(creation_seconds=0.5, check_seconds=1.0, reconnect_seconds=1.0, send_seconds=3.0, close_seconds=2.0)
    log, recorder = await own_following.open(namespace, own_following.start(limits=limits))
    recorder.append(log, an_update(a_key(namespace, 0, Scope.GLOBAL)))
    await recorder.until_settled(1)
    await asyncio.to_thread(own_broker.kill)
    recorder.append(log, an_update(a_key(namespace), event_id="in flight"))
    await recorder.until(lambda: bool(recorder.failures))
    assert [error.outcome_unknown for _, error in recorder.failures] == [True]
    await asyncio.sleep(5)
    assert recorder.losses == []
