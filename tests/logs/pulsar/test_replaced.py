"""A log that is deleted and created anew while somebody has to do with it: nothing of one is taken for the other's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.logs.pulsar.fakes import FakeAdmin, FakeReader, a_message
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
from topicpolicies_server.logs.pulsar.reading.whole_log import Reading

NAMESPACE, LOCAL = "public/default", "__change_events"
TOPIC = f"persistent/{NAMESPACE}/{LOCAL}"
CREATION = f"{TOPIC}/internal-info"
IDENTITY = f"pulsar:east:{NAMESPACE}/{LOCAL}:1:"
LAYOUT = Layout(NAMESPACE, LOCAL, 0)


class Broker(FakeAdmin):
    """Has one log, and another one in its place when a question was answered, or when a reader is there."""

    def __init__(self, *, upon: str = "", times: int = 1) -> None:
        """``upon``: behind so many answers to this question there is another log."""
        super().__init__(a_log(7, 3, "monday"))
        self.readers: list[FakeReader] = []
        self._ledger, self._entries = 7, 3
        self._upon, self._times = upon, times

    async def get(self, *path: str, seconds: float = 0) -> Any:
        answer = await super().get(*path, seconds=seconds)
        if self.asked[-1] == self._upon and self.asked.count(self._upon) == self._times:
            self.replace()
        return answer

    def replace(self) -> None:
        """There is another log."""
        self._ledger, self._entries = 9, 6
        self.answers = a_log(9, 6, "tuesday")

    async def create_reader(self, *_args: Any, **_options: Any) -> FakeReader:
        reader = FakeReader(
            *(a_message(n, an_update(a_key(NAMESPACE), n, event_id=f"{n}"), ledger=self._ledger) for n in range(self._entries))
        )
        self.readers.append(reader)
        if self._upon == "reader":
            self.replace()
        return reader


def a_log(ledger: int, entries: int, created: str) -> dict[str, Any]:
    stats = {
        "lastConfirmedEntry": f"{ledger}:{entries - 1}",
        "ledgers": [{"ledgerId": ledger, "entries": 0}],
        "cursors": {"__compaction": {"markDeletePosition": f"{ledger}:-1"}},
    }
    return {f"{TOPIC}/partitions": {"partitions": 0}, CREATION: {"creationDate": created}, f"{TOPIC}/internalStats": stats}


class Listening:
    """What is read."""

    unopened = None

    def __init__(self) -> None:
        self.entries: list[Placed] = []
        self.losses: list[LogError] = []

    def read(self, events: Sequence[Placed]) -> None:
        self.entries += events

    def caught_up(self) -> None:
        """All was read."""

    def lost(self, error: LogError) -> None:
        self.losses.append(error)


def reading(broker: Broker) -> tuple[Reading, Listening]:
    admin, listening = cast("Admin", broker), Listening()
    facts = PulsarFacts("east", Dialect.PREFIXED, 0)
    access = Access(cast("PulsarClient", broker), admin, Topics(admin, LOCAL), facts, PulsarLimits())
    return Reading(access, Schemas(admin, NAMESPACE, LOCAL, cluster="east", dialect=Dialect.PREFIXED), LAYOUT, listening), listening


def a_place() -> Start:
    """Where somebody had read all of Monday's log."""
    return Start(f"{IDENTITY}monday", (position_of(MessageId(7, 2)),), ("2",), in_place=False)


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
    broker.replace()
    broker.answers[CREATION] = LogError(reason, "no")
    with pytest.raises(LogError, match="no"):
        await replaced(topics, LAYOUT, "monday")
