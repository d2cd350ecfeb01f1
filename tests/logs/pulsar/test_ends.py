"""Where a followed log ends, and whether that is the end of the log that was opened."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.logs.pulsar.fakes import FakeAdmin
from topicpolicies_server.core.policies.events import Position
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.admin.topics import Topics
from topicpolicies_server.logs.pulsar.ids import MessageId, border_of
from topicpolicies_server.logs.pulsar.reading.existence import Existence, LogEnd
from topicpolicies_server.logs.pulsar.reading.following import Following

TOPIC = "persistent/public/default/__change_events"
GONE = LogError(Reason.LOG_UNAVAILABLE, "It was deleted.")


class FakeFollowing:
    """Readers that have read up to ledger 7; ``answer`` is where the broker says that the log ends."""

    ledgers = (7,)

    def __init__(self, answer: MessageId | LogError) -> None:
        self.answer = answer

    async def last(self, partition: int) -> MessageId:
        del partition
        if isinstance(self.answer, LogError):
            raise self.answer
        return self.answer

    def end(self, partition: int, last: MessageId) -> Position:
        del partition
        return border_of(last)


class FakeExistence:
    """Knows whether the log still exists."""

    def __init__(self, trouble: LogError | None) -> None:
        self.answer = trouble
        self.asked = 0

    async def trouble(self, *, surely: bool = False) -> LogError | None:
        self.asked += 1
        if self.answer is not None and self.answer.state == LogState.ADMIN_UNREACHABLE:
            assert surely, "a missing answer must be reported, not taken for no trouble"
            raise self.answer
        return self.answer


def ending(last: MessageId | LogError, trouble: LogError | None = None) -> tuple[LogEnd, FakeExistence, list[LogError]]:
    losses: list[LogError] = []
    existence = FakeExistence(trouble)
    return LogEnd(cast("Following", FakeFollowing(last)), cast("Existence", existence), losses.append), existence, losses


async def test_an_end_in_a_ledger_that_was_read_needs_no_check_of_the_logs_existence() -> None:
    asking, existence, _ = ending(MessageId(7, 3), GONE)
    assert await asking.end(0) == border_of(MessageId(7, 3))
    assert existence.asked == 0


async def test_an_end_in_a_ledger_that_was_not_read_needs_one_check_of_the_logs_existence() -> None:
    asking, existence, losses = ending(MessageId(9, -1))
    assert [await asking.end(0) for _ in range(3)] == [border_of(MessageId(9, -1))] * 3
    assert (existence.asked, losses) == (1, [])


@pytest.mark.parametrize("last", [MessageId(9, 0), LogError(LogState.NOT_SERVED, "not served")])
async def test_the_end_of_a_replaced_log_is_not_returned_and_the_opened_log_is_lost(last: MessageId | LogError) -> None:
    asking, _, losses = ending(last, GONE)
    with pytest.raises(LogError) as error:
        await asking.end(0)
    assert error.value is GONE
    assert losses == [GONE]


async def test_a_log_that_only_moves_to_another_broker_is_not_lost() -> None:
    asking, existence, losses = ending(LogError(LogState.NOT_SERVED, "not served"))
    with pytest.raises(LogError, match="not served"):
        await asking.end(0)
    assert (existence.asked, losses) == (1, [])


async def test_requesting_the_end_fails_while_the_logs_existence_can_not_be_checked() -> None:
    silent = LogError(LogState.ADMIN_UNREACHABLE, "no answer")
    asking, existence, losses = ending(MessageId(9, -1), silent)
    with pytest.raises(LogError, match="no answer"):
        await asking.end(0)
    existence.answer = None
    assert await asking.end(0) == border_of(MessageId(9, -1))
    assert (existence.asked, losses) == (2, [])


async def test_requesting_the_end_fails_and_loses_nothing_while_no_broker_answers() -> None:
    asking, existence, losses = ending(LogError(LogState.ADMIN_UNREACHABLE, "no answer"))
    with pytest.raises(LogError, match="no answer"):
        await asking.end(0)
    assert (existence.asked, losses) == (0, [])


@pytest.mark.parametrize(
    ("answer", "last"),
    [
        ({"ledgerId": 31, "entryId": 4, "partitionIndex": -1}, MessageId(31, 4)),
        ({"ledgerId": 31, "entryId": 4, "partitionIndex": 0, "batchIndex": 2, "batchSize": 3}, MessageId(31, 4, 2)),
        ({"ledgerId": 32, "entryId": -1, "partitionIndex": -1}, MessageId(32, -1)),
    ],
)
async def test_the_last_message_id_is_parsed_in_the_forms_that_brokers_send(answer: dict[str, Any], last: MessageId) -> None:
    topics = Topics(cast("Admin", FakeAdmin({f"{TOPIC}/lastMessageId": answer})), "__change_events")
    assert await topics.last("public/default", "__change_events") == last


async def test_the_last_message_of_a_topic_that_no_broker_serves_is_not_known() -> None:
    topics = Topics(cast("Admin", FakeAdmin({})), "__change_events")
    with pytest.raises(LogError) as error:
        await topics.last("public/default", "__change_events")
    assert error.value.state == LogState.NOT_SERVED
