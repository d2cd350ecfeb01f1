"""Health checks of open logs: what a check finds, and when each log is checked."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple, cast

import pytest

from tests.eventually import eventually
from tests.logs.pulsar.fakes import FakeAdmin, FakePartitionReader, a_log
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.namespace_log import PulsarNamespaceLog
from topicpolicies_server.logs.pulsar.topics import Topics

TOPIC = "persistent/public/default/__change_events"
THERE = {f"{TOPIC}/partitions": {"partitions": 0}, f"{TOPIC}/internal-info": {"creationDate": "monday"}}
LIMITS = PulsarLimits(creation_seconds=2, check_seconds=30, reconnect_seconds=15)


class Watched(NamedTuple):
    """A log that has caught up, and the reader of its partition; ``losses``: what was reported."""

    log: PulsarNamespaceLog
    reader: FakePartitionReader
    losses: list[LogError]


def watching(answers: dict[str, Any]) -> Watched:
    reader = FakePartitionReader()
    log, losses = a_log(Topics(cast("Admin", FakeAdmin(answers))), reader, limits=LIMITS)
    log._creations = ["monday"]
    return Watched(log, reader, losses)


async def test_the_check_of_an_unchanged_log_finds_no_trouble_and_requests_compactions() -> None:
    log, reader, losses = watching(THERE)
    await log.check()
    assert (reader.kept_up, losses) == (1, [])


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"namespaces/public/default": {}}, "LOG_UNAVAILABLE"),
        ({}, "NAMESPACE_NOT_FOUND"),
        ({f"{TOPIC}/partitions": {"partitions": 3}}, "LOG_UNAVAILABLE"),
        ({**THERE, f"{TOPIC}/internal-info": {"creationDate": "tuesday"}}, "LOG_REPLACED"),
    ],
)
async def test_a_deleted_or_changed_log_is_lost_with_the_reason(answers: dict[str, Any], reason: str) -> None:
    log, _, losses = watching(answers)
    await log.check()
    assert [loss.reason for loss in losses] == [reason]
    assert (losses[0].kind is Kind.NOT_FOUND) == (reason == "NAMESPACE_NOT_FOUND")
    await log.close()


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("why", [LogState.ADMIN_REFUSED, LogState.ADMIN_UNREACHABLE])
async def test_a_failed_check_loses_the_log_only_if_access_is_denied_and_there_is_no_connection(why: LogState, connected: bool) -> None:
    log, reader, losses = watching({f"{TOPIC}/partitions": LogError(why, "no")})
    reader.connected = connected
    await log.check()
    assert [loss.state for loss in losses] == [LogState.ACCESS_DENIED] * (why is LogState.ADMIN_REFUSED and not connected)
    await log.close()


async def test_an_existing_log_that_does_not_reconnect_in_time_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    log, reader, losses = watching(THERE)
    reader.connected = False
    began = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: began + 10)
    await log.check()
    assert losses == []
    monkeypatch.setattr(time, "monotonic", lambda: began + 16)
    await log.check()
    assert [loss.state for loss in losses] == [LogState.UNREACHABLE]
    await log.close()


async def test_a_check_is_due_periodically_and_soon_after_one_without_an_answer_or_a_disconnection(monkeypatch: pytest.MonkeyPatch) -> None:
    log, reader, _ = watching(THERE)
    began = log.checked

    def is_due(seconds: float) -> bool:
        monkeypatch.setattr(time, "monotonic", lambda: began + seconds)
        return log.look()

    assert not is_due(29) and is_due(31)
    log.checked = began + 31
    reader.connected = False
    assert not is_due(31.5) and is_due(33.6)
    reader.connected = True
    assert is_due(33.7), "it was disconnected since the last check"
    await log.check()
    assert not is_due(60)
    monkeypatch.setattr(log._brokers.topics, "find", _no_answer)
    await log.check()
    log.checked = began + 60
    assert not is_due(61) and is_due(62.1)


async def _no_answer(_: str) -> None:
    raise LogError(LogState.ADMIN_UNREACHABLE, "no")


async def test_a_check_that_hangs_is_not_begun_again_and_ends_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log, _, losses = watching(THERE)
    monkeypatch.setattr(log._brokers.topics, "find", lambda _: asyncio.sleep(60))
    log.checked -= 60
    assert log.look()
    log.begin_check()
    log.checked -= 60
    assert not log.look()
    async with asyncio.timeout(5):
        await log.close()
    assert losses == []


class FakeLog:
    """A log that is always due."""

    def __init__(self, checked: float) -> None:
        self.checked = checked
        self.looked = self.begun = 0

    def look(self) -> bool:
        self.looked += 1
        return True

    def begin_check(self) -> None:
        self.begun += 1
        self.checked = time.monotonic()

    async def close(self) -> None:
        """Has nothing to close."""


async def test_checks_are_begun_at_a_limited_rate_that_of_the_log_that_was_checked_the_longest_time_ago_first() -> None:
    logs = [FakeLog(float(number)) for number in range(100)]
    made = PulsarLog("pulsar://127.0.0.1:1", "http://127.0.0.1:1")
    made._logs = {f"acme/{number}": cast("PulsarNamespaceLog", log) for number, log in enumerate(reversed(logs))}
    made._looking.start()
    await eventually(lambda: logs[0].looked > 3)
    begun = [log.begun for log in logs]
    await made.close()
    assert 0 < sum(begun) <= logs[0].looked * 30 * 0.08, "more than 30 in a second, with a look every 0.08 s"
    assert begun == [1] * sum(begun) + [0] * (100 - sum(begun))
