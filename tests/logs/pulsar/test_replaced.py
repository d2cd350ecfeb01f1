"""A log that is deleted and created anew while somebody has to do with it: nothing of one is taken for the other's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.logs.pulsar.conftest import eventually
from tests.logs.pulsar.fakes import FakeAdmin, FakeMessage, FakeReader, a_message
from tests.logs.samples import a_key, an_update
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.avro import Dialect
from topicpolicies_server.logs.change_log import LogError, Start
from topicpolicies_server.logs.pulsar import PulsarLimits
from topicpolicies_server.logs.pulsar.access import Access
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.admin.facts import PulsarFacts
from topicpolicies_server.logs.pulsar.admin.schemas import Schemas
from topicpolicies_server.logs.pulsar.admin.topics import Layout, Topics
from topicpolicies_server.logs.pulsar.client import PulsarClient
from topicpolicies_server.logs.pulsar.ids import MessageId, position_of
from topicpolicies_server.logs.pulsar.reading.existence import replaced
from topicpolicies_server.logs.pulsar.reading.log_reader import LogReader

NAMESPACE, LOCAL = "public/default", "__change_events"
TOPIC = f"persistent/{NAMESPACE}/{LOCAL}"
CREATION = f"{TOPIC}/internal-info"
IDENTITY = f"pulsar:east:{NAMESPACE}/{LOCAL}:1:"
LAYOUT = Layout(NAMESPACE, LOCAL, 0)


class Broker(FakeAdmin):
    """Has one log, and another one in its place when a question was answered, or when a reader is there."""

    def __init__(self, *, upon: str = "", partitions: int = 0) -> None:
        """``upon``: behind an answer to this question there is another log."""
        super().__init__({f"{TOPIC}/partitions": {"partitions": partitions}})
        self.readers: list[FakeReader] = []
        self._ledgers: dict[str, int] = {}
        self._upon = upon
        for topic in Layout(NAMESPACE, LOCAL, partitions).topics:
            self.make(topic, 7, "monday")

    async def get(self, *path: str, seconds: float = 0) -> Any:
        answer = await super().get(*path, seconds=seconds)
        if self.asked[-1] == self._upon and self.asked.count(self._upon) == 1:
            self.make(LOCAL, 9, "tuesday")
        return answer

    def make(self, topic: str, ledger: int, created: str) -> None:
        """Makes a topic, with an entry for each day."""
        stats = {
            "lastConfirmedEntry": f"{ledger}:{ledger - 1}",
            "ledgers": [{"ledgerId": ledger, "entries": 0}],
            "cursors": {"__compaction": {"markDeletePosition": f"{ledger}:-1"}},
        }
        path = f"persistent/{NAMESPACE}/{topic}"
        self.answers |= {f"{path}/internal-info": {"creationDate": created}, f"{path}/internalStats": stats}
        self._ledgers[topic] = ledger

    def message(self, topic: str, entry: int) -> FakeMessage:
        """What stands in a topic."""
        return a_message(entry, an_update(a_key(NAMESPACE), entry, event_id=f"{entry}"), ledger=self._ledgers[topic])

    async def create_reader(self, name: str, *_args: Any, **_options: Any) -> FakeReader:
        topic = name.rsplit("/", 1)[1]
        reader = FakeReader(*(self.message(topic, entry) for entry in range(self._ledgers[topic])))
        self.readers.append(reader)
        if self._upon == "reader":
            self.make(LOCAL, 9, "tuesday")
        return reader


class Listening:
    """What is read."""

    undecoded = None

    def __init__(self) -> None:
        self.entries: list[Placed] = []
        self.losses: list[LogError] = []

    def read(self, events: Sequence[Placed]) -> None:
        self.entries += events

    def caught_up(self) -> None:
        """All was read."""

    def lost(self, error: LogError) -> None:
        self.losses.append(error)


def reading(broker: Broker, layout: Layout = LAYOUT) -> tuple[LogReader, Listening]:
    admin, listening = cast("Admin", broker), Listening()
    facts = PulsarFacts("east", Dialect.PREFIXED, 0)
    access = Access(cast("PulsarClient", broker), admin, Topics(admin, LOCAL), facts, PulsarLimits())
    return LogReader(access, Schemas(admin, NAMESPACE, LOCAL, cluster="east", dialect=Dialect.PREFIXED), layout, listening), listening


def a_place() -> Start:
    """Where somebody had read all of Monday's log."""
    return Start(f"{IDENTITY}monday", (position_of(MessageId(7, 6)),), ("6",), in_place=False)


async def test_a_log_that_is_there_is_gone_on_with() -> None:
    log, _ = reading(Broker())
    assert await log.start(a_place())
    assert log.identity == f"{IDENTITY}monday"
    await log.close()


@pytest.mark.parametrize("upon", [CREATION, f"{TOPIC}/internalStats", "reader"])
@pytest.mark.parametrize("start", [None, a_place()])
async def test_what_was_replaced_while_it_was_opened_is_not_gone_on_with_as_another(upon: str, start: Start | None) -> None:
    broker = Broker(upon=upon)
    log, listening = reading(broker)
    with pytest.raises(LogError) as refused:
        await log.start(start)
    assert refused.value.reason == Reason.LOG_LOST, "it is opened anew at once"
    assert listening.entries == []
    assert all(reader.closed for reader in broker.readers)
    again, _ = reading(broker)
    assert not await again.start(a_place())
    assert again.identity == f"{IDENTITY}tuesday"
    await again.close()


async def test_a_log_that_is_gone_when_its_readers_are_connected_is_not_followed_under_no_name() -> None:
    broker = Broker()
    del broker.answers[CREATION]
    log, _ = reading(broker)
    with pytest.raises(LogError) as refused:
        await log.start()
    assert refused.value.reason == Reason.LOG_LOST


@pytest.mark.parametrize("reason", [Reason.PULSAR_ADMIN_REFUSED, Reason.PULSAR_ADMIN_UNREACHABLE])
async def test_who_does_not_say_whether_it_is_the_same_has_not_said_that_it_is(reason: Reason) -> None:
    broker = Broker()
    topics = Topics(cast("Admin", broker), LOCAL)
    assert await replaced(topics, LAYOUT, "monday") is None
    broker.make(LOCAL, 9, "tuesday")
    broker.answers[CREATION] = LogError(reason, "no")
    with pytest.raises(LogError, match="no"):
        await replaced(topics, LAYOUT, "monday")


async def test_of_one_partition_that_is_replaced_by_itself_nothing_is_read_as_the_former_ones() -> None:
    layout = Layout(NAMESPACE, LOCAL, 3)
    broker = Broker(partitions=3)
    log, listening = reading(broker, layout)
    await log.start()
    await eventually(lambda: len(listening.entries) == 3 * 7)
    identity = log.identity
    place = Start(identity, (position_of(MessageId(7, 6)),) * 3, ("6",) * 3, in_place=False)
    again, _ = reading(broker, layout)
    assert await again.start(place)
    assert again.identity == identity
    broker.make(layout.topics[1], 9, "tuesday")
    for number, topic in enumerate(layout.topics):
        broker._ledgers[topic] = 9
        broker.readers[number].feed(broker.message(topic, 0))
    await eventually(lambda: bool(listening.losses))
    assert [loss.reason for loss in listening.losses] == [Reason.LOG_REPLACED]
    assert [placed.partition for placed in listening.entries[3 * 7 :]] == [0, 2], "theirs is a new ledger of the same log"
    trouble = await again.trouble()
    assert trouble is not None
    assert trouble.reason == Reason.LOG_REPLACED
    third, _ = reading(broker, layout)
    assert not await third.start(place)
    assert third.identity != identity
    for each in (log, again, third):
        await each.close()


@pytest.mark.parametrize("compacted", [True, False])
async def test_a_log_that_came_into_being_and_was_compacted_before_it_was_found_is_opened_anew(compacted: bool) -> None:
    broker = Broker()
    log, listening = reading(broker)  # at its opening there was none
    if compacted:
        broker.answers[f"{TOPIC}/internalStats"] |= {
            "compactedLedger": {"ledgerId": 8},
            "cursors": {"__compaction": {"markDeletePosition": "7:3"}},
        }
        with pytest.raises(LogError, match="compacted"):
            await log.trouble()
        await eventually(lambda: bool(listening.losses))
        assert [loss.reason for loss in listening.losses] == [Reason.LOG_COMPACTED]
        assert (listening.entries, log.exists) == ([], False)
        assert all(reader.closed for reader in broker.readers)
        log, listening = reading(broker)
        await log.start()
        assert log.complete_after(0) == position_of(MessageId(7, 3))
    else:
        assert await log.trouble() is None
        await eventually(lambda: len(listening.entries) == 7)
        assert log.complete_after(0) == ""
        assert listening.losses == []
    await log.close()
