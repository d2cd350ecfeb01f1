"""A log that is deleted and recreated while it is opened or followed: entries of one log are never taken for the other's."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.eventually import eventually
from tests.logs.pulsar.fakes import FakeAdmin, FakeMessage, FakeReader, a_message
from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, an_update
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.avro import Dialect
from topicpolicies_server.logs.change_log import LogError, Start
from topicpolicies_server.logs.pulsar import PulsarLimits
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.brokers import Brokers
from topicpolicies_server.logs.pulsar.client import PulsarClient
from topicpolicies_server.logs.pulsar.facts import PulsarFacts
from topicpolicies_server.logs.pulsar.ids import MessageId, border_of, position_of
from topicpolicies_server.logs.pulsar.namespace_log import PulsarNamespaceLog
from topicpolicies_server.logs.pulsar.topics import Layout, Topics

NAMESPACE, LOCAL = "public/default", "__change_events"
TOPIC = f"persistent/{NAMESPACE}/{LOCAL}"
CREATION = f"{TOPIC}/internal-info"
IDENTITY = f"pulsar:east:{NAMESPACE}/{LOCAL}:1:"
LAYOUT = Layout(NAMESPACE, 0)


def local_names(layout: Layout) -> list[str]:
    return [topic.rsplit("/", 1)[1] for topic in layout.topics]


class Broker(FakeAdmin):
    """A broker with one log, which it replaces after it answered a certain request, or after a reader was created."""

    def __init__(self, *, upon: str = "", partitions: int = 0) -> None:
        """``upon``: the request after whose first answer the log is replaced, or "reader"."""
        super().__init__({f"{TOPIC}/partitions": {"partitions": partitions}})
        self.topics = Topics(cast("Admin", self))
        self.readers: list[FakeReader] = []
        self._ledgers: dict[str, int] = {}
        self._upon = upon
        for topic in local_names(Layout(NAMESPACE, partitions)):
            self.make(topic, 7, "monday")

    async def get(self, *path: str, seconds: float = 0) -> Any:
        answer = await super().get(*path, seconds=seconds)
        if self.asked[-1] == self._upon and self.asked.count(self._upon) == 1:
            self.make(LOCAL, 9, "tuesday")
        return answer

    def make(self, topic: str, ledger: int, created: str) -> None:
        """Creates a topic that has as many entries as its ledger's number says."""
        stats = {
            "lastConfirmedEntry": f"{ledger}:{ledger - 1}",
            "ledgers": [{"ledgerId": ledger, "entries": 0}],
            "cursors": {"__compaction": {"markDeletePosition": f"{ledger}:-1"}},
        }
        path = f"persistent/{NAMESPACE}/{topic}"
        self.answers |= {f"{path}/internal-info": {"creationDate": created}, f"{path}/internalStats": stats}
        self._ledgers[topic] = ledger

    def trim(self, topic: str, *, compacted: bool) -> None:
        """Deletes ledger 7 of a topic, whose next entry goes to ledger 9; ``compacted``: whether a compacted ledger has its entries."""
        path = f"persistent/{NAMESPACE}/{topic}"
        self.answers[f"{path}/internal-info"] |= {"ledgers": [{"ledgerId": 9}]}
        self.answers[f"{path}/internalStats"] |= {
            "ledgers": [{"ledgerId": 9, "entries": 0}],
            "cursors": {"__compaction": {"markDeletePosition": "9:-1"}},
            "compactedLedger": {"ledgerId": 8 if compacted else -1},
        }

    def message(self, topic: str, entry: int) -> FakeMessage:
        """Returns a message of a topic."""
        return a_message(entry, an_update(a_key(NAMESPACE), entry, event_id=f"{entry}"), ledger=self._ledgers[topic])

    async def create_reader(self, name: str, *_args: Any, **_options: Any) -> FakeReader:
        topic = name.rsplit("/", 1)[1]
        reader = FakeReader(*(self.message(topic, entry) for entry in range(self._ledgers[topic])))
        self.readers.append(reader)
        if self._upon == "reader":
            self.make(LOCAL, 9, "tuesday")
        return reader


def reading(broker: Broker, layout: Layout = LAYOUT) -> tuple[PulsarNamespaceLog, Recorder]:
    admin, listening = cast("Admin", broker), Recorder()
    facts = PulsarFacts("east", Dialect.PREFIXED, 0)
    access = Brokers(cast("PulsarClient", broker), admin, broker.topics, facts, PulsarLimits())
    return PulsarNamespaceLog(access, layout, listening, lambda _: None), listening


async def started(log: PulsarNamespaceLog, start: Start | None = None) -> bool:
    """Begins to follow a log that exists; returns whether it is read from ``start`` on."""
    await log.start(start, exists=True)
    return log.resumed


def a_place() -> Start:
    """Returns the end of monday's log as a ``Start``."""
    return Start(f"{IDENTITY}monday", (position_of(MessageId(7, 6)),), ("6",), in_place=False)


async def test_reading_resumes_in_a_log_that_was_not_replaced() -> None:
    log, _ = reading(Broker())
    assert await started(log, a_place())
    assert log.identity == f"{IDENTITY}monday"
    await log.close()


@pytest.mark.parametrize("upon", [CREATION, f"{TOPIC}/internalStats", "reader"])
@pytest.mark.parametrize("start", [None, a_place()])
async def test_opening_a_log_that_is_replaced_meanwhile_fails_and_reads_nothing_of_either(upon: str, start: Start | None) -> None:
    broker = Broker(upon=upon)
    log, listening = reading(broker)
    with pytest.raises(LogError) as refused:
        await started(log, start)
    assert refused.value.state == LogState.LOST, "the reason has to be one after which the log is reopened at once"
    assert listening.entries == []
    assert all(reader.closed for reader in broker.readers)
    again, _ = reading(broker)
    assert not await started(again, a_place())
    assert again.identity == f"{IDENTITY}tuesday"
    await again.close()


async def test_opening_a_log_without_a_known_creation_fails() -> None:
    broker = Broker()
    del broker.answers[CREATION]
    log, _ = reading(broker)
    with pytest.raises(LogError) as refused:
        await started(log)
    assert refused.value.state == LogState.LOST


async def test_entries_of_one_replaced_partition_are_not_read_as_those_of_the_former_log() -> None:
    layout = Layout(NAMESPACE, 3)
    broker = Broker(partitions=3)
    log, listening = reading(broker, layout)
    await started(log)
    await eventually(lambda: len(listening.entries) == 3 * 7)
    identity = log.identity
    place = Start(identity, (position_of(MessageId(7, 6)),) * 3, ("6",) * 3, in_place=False)
    again, listening_again = reading(broker, layout)
    assert await started(again, place)
    assert again.identity == identity
    broker.make(local_names(layout)[1], 9, "tuesday")
    for number, topic in enumerate(local_names(layout)):
        broker._ledgers[topic] = 9
        broker.readers[number].feed(broker.message(topic, 0))
    await eventually(lambda: bool(listening.losses))
    assert {loss.reason for loss in listening.losses} == {Reason.LOG_REPLACED}
    assert len(listening.entries) == 3 * 7
    await again.check()
    assert [loss.reason for loss in listening_again.losses] == [Reason.LOG_REPLACED]
    third, _ = reading(broker, layout)
    assert not await started(third, place)
    assert third.identity != identity
    for each in (log, again, third):
        await each.close()


@pytest.mark.parametrize("compacted", [True, False])
async def test_a_log_that_was_created_and_compacted_before_it_was_found_is_lost_and_can_be_opened_again(compacted: bool) -> None:
    broker = Broker()
    log, listening = reading(broker)  # it did not exist at the opening
    if compacted:
        broker.answers[f"{TOPIC}/internalStats"] |= {
            "compactedLedger": {"ledgerId": 8},
            "cursors": {"__compaction": {"markDeletePosition": "7:3"}},
        }
        await log.check()
        await eventually(lambda: bool(listening.losses))
        assert [loss.reason for loss in listening.losses] == [Reason.LOG_UNAVAILABLE]
        assert (listening.entries, log.connected) == ([], ())
        assert all(reader.closed for reader in broker.readers)
        log, listening = reading(broker)
        await started(log)
        assert log.complete_after(0) == position_of(MessageId(7, 3))
    else:
        await log.check()
        await eventually(lambda: len(listening.entries) == 7)
        assert log.complete_after(0) == ""
        assert listening.losses == []
    await log.close()


@pytest.mark.parametrize("partitions", [0, 3])
async def test_a_log_that_was_truncated_is_lost_and_what_was_read_before_is_known_to_be_gone(partitions: int) -> None:
    layout = Layout(NAMESPACE, partitions)
    broker = Broker(partitions=partitions)
    log, listening = reading(broker, layout)
    await started(log)
    await eventually(lambda: len(listening.entries) == 7 * len(layout.topics))
    await log.check()
    assert listening.losses == []
    for topic in local_names(layout):
        broker.trim(topic, compacted=False)
        broker._ledgers[topic] = 0
    await log.check()
    assert [(loss.state, "truncated" in loss.message) for loss in listening.losses] == [(LogState.LOST, True)]
    places = (position_of(MessageId(7, 6)),) * len(layout.topics)
    again, listening = reading(broker, layout)
    assert not await started(again, Start(log.identity, places, ("6",) * len(places), in_place=False))
    assert [again.complete_after(number) for number in range(len(places))] == [border_of(MessageId(9, -1))] * len(places)
    await again.check()
    assert listening.losses == []
    for each in (log, again):
        await each.close()


async def test_a_log_whose_old_ledgers_were_deleted_after_a_compaction_is_not_lost() -> None:
    broker = Broker()
    log, listening = reading(broker)
    await started(log)
    await eventually(lambda: len(listening.entries) == 7)
    broker.trim(LOCAL, compacted=True)
    await log.check()
    assert listening.losses == []
    await log.close()
