"""Where a followed log ends, and whether that is the end of the log that was opened."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.logs.pulsar.fakes import FakeAdmin, FakePartitionReader, a_log
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.ids import MessageId, border_of
from topicpolicies_server.logs.pulsar.topics import Topics

TOPIC = "persistent/public/default/__change_events"
GONE = LogError(Reason.LOG_UNAVAILABLE, "It was deleted.")


class Ending:
    """A log of which a broker says where it ends, and another one whether it exists; ``losses``: what was reported."""

    def __init__(self, last: MessageId | LogError, trouble: LogError | None = None) -> None:
        self.last, self.answer, self.asked = last, trouble, 0
        log, self.losses = a_log(SimpleNamespace(last=self._last), FakePartitionReader())
        log._replaced = self._replaced  # type: ignore[method-assign]
        self.end = log.end

    async def _last(self, *_: str) -> MessageId:
        if isinstance(self.last, LogError):
            raise self.last
        return self.last

    async def _replaced(self) -> LogError | None:
        self.asked += 1
        if self.answer is not None and self.answer.state == LogState.ADMIN_UNREACHABLE:
            raise self.answer
        return self.answer


async def test_an_end_in_a_ledger_that_was_read_needs_no_check_of_the_logs_existence() -> None:
    log = Ending(MessageId(7, 3), GONE)
    assert await log.end(0) == border_of(MessageId(7, 3))
    assert log.asked == 0


async def test_an_end_in_a_ledger_that_was_not_read_needs_one_check_of_the_logs_existence() -> None:
    log = Ending(MessageId(9, -1))
    assert [await log.end(0) for _ in range(3)] == [border_of(MessageId(9, -1))] * 3
    assert (log.asked, log.losses) == (1, [])


@pytest.mark.parametrize("last", [MessageId(9, 0), LogError(LogState.NOT_SERVED, "not served")])
async def test_the_end_of_a_replaced_log_is_not_returned_and_the_opened_log_is_lost(last: MessageId | LogError) -> None:
    log = Ending(last, GONE)
    with pytest.raises(LogError) as error:
        await log.end(0)
    assert error.value is GONE
    assert log.losses == [GONE]


async def test_a_log_that_only_moves_to_another_broker_is_not_lost() -> None:
    log = Ending(LogError(LogState.NOT_SERVED, "not served"))
    with pytest.raises(LogError, match="not served"):
        await log.end(0)
    assert (log.asked, log.losses) == (1, [])


async def test_requesting_the_end_fails_while_the_logs_existence_can_not_be_checked() -> None:
    silent = LogError(LogState.ADMIN_UNREACHABLE, "no answer")
    log = Ending(MessageId(9, -1), silent)
    with pytest.raises(LogError, match="no answer"):
        await log.end(0)
    log.answer = None
    assert await log.end(0) == border_of(MessageId(9, -1))
    assert (log.asked, log.losses) == (2, [])


async def test_requesting_the_end_fails_and_loses_nothing_while_no_broker_answers() -> None:
    log = Ending(LogError(LogState.ADMIN_UNREACHABLE, "no answer"))
    with pytest.raises(LogError, match="no answer"):
        await log.end(0)
    assert (log.asked, log.losses) == (0, [])


@pytest.mark.parametrize(
    ("answer", "last"),
    [
        ({"ledgerId": 31, "entryId": 4, "partitionIndex": -1}, MessageId(31, 4)),
        ({"ledgerId": 31, "entryId": 4, "partitionIndex": 0, "batchIndex": 2, "batchSize": 3}, MessageId(31, 4, 2)),
        ({"ledgerId": 32, "entryId": -1, "partitionIndex": -1}, MessageId(32, -1)),
    ],
)
async def test_the_last_message_id_is_parsed_in_the_forms_that_brokers_send(answer: dict[str, Any], last: MessageId) -> None:
    topics = Topics(cast("Admin", FakeAdmin({f"{TOPIC}/lastMessageId": answer})))
    assert await topics.last("persistent://public/default/__change_events") == last


async def test_the_last_message_of_a_topic_that_no_broker_serves_is_not_known() -> None:
    topics = Topics(cast("Admin", FakeAdmin({})))
    with pytest.raises(LogError) as error:
        await topics.last("persistent://public/default/__change_events")
    assert error.value.state == LogState.NOT_SERVED
