"""Health checks of open logs: what a check finds, and when each log is checked."""

from __future__ import annotations

import asyncio
import logging
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.eventually import eventually
from tests.logs.pulsar.fakes import FakeAdmin
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.avro import Dialect
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog
from topicpolicies_server.logs.pulsar import log as log_module
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.brokers import Brokers
from topicpolicies_server.logs.pulsar.client import PulsarClient
from topicpolicies_server.logs.pulsar.facts import PulsarFacts
from topicpolicies_server.logs.pulsar.ids import MessageId
from topicpolicies_server.logs.pulsar.namespace_log import PulsarNamespaceLog
from topicpolicies_server.logs.pulsar.reader import PartitionReader
from topicpolicies_server.logs.pulsar.topics import Layout, Topics

TOPIC = "persistent/public/default/__change_events"
THERE = {f"{TOPIC}/partitions": {"partitions": 0}, f"{TOPIC}/internal-info": {"creationDate": "monday"}}
LIMITS = PulsarLimits(creation_seconds=2, check_seconds=30, reconnect_seconds=15)


class FakeReader:
    """The reader of a log that is not partitioned."""

    def __init__(self) -> None:
        self.entries = SimpleNamespace(last=MessageId(7, 0))
        self.ledger = 7
        self.connected = True
        self.kept_up = 0

    async def keep_up(self) -> None:
        self.kept_up += 1


def watching(answers: dict[str, Any]) -> tuple[PulsarNamespaceLog, FakeReader]:
    """Returns a log that has caught up, and the reader of its partition."""
    admin = cast("Admin", FakeAdmin(answers))
    access = Brokers(cast("PulsarClient", None), admin, Topics(admin), PulsarFacts("east", Dialect.PREFIXED, 0), LIMITS)
    log, reader = PulsarNamespaceLog(access, Layout("public/default", 0), cast("Any", None), lambda _: None), FakeReader()
    log._readers, log._creations = [cast("PartitionReader", reader)], ["monday"]
    return log, reader


async def test_the_check_of_an_unchanged_log_finds_no_trouble_and_requests_compactions() -> None:
    log, reader = watching(THERE)
    assert await log.trouble() is None
    assert reader.kept_up == 1


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"namespaces/public/default": {}}, "LOG_UNAVAILABLE"),
        ({}, "NAMESPACE_NOT_FOUND"),
        ({f"{TOPIC}/partitions": {"partitions": 3}}, "LOG_UNAVAILABLE"),
        ({**THERE, f"{TOPIC}/internal-info": {"creationDate": "tuesday"}}, "LOG_REPLACED"),
    ],
)
async def test_the_check_of_a_deleted_or_changed_log_returns_the_reason_for_which_it_is_lost(answers: dict[str, Any], reason: str) -> None:
    log, _ = watching(answers)
    error = await log.trouble()
    assert error is not None
    assert error.reason == reason
    assert (error.kind is Kind.NOT_FOUND) == (reason == "NAMESPACE_NOT_FOUND")


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("why", [LogState.ADMIN_REFUSED, LogState.ADMIN_UNREACHABLE])
async def test_a_failed_check_loses_the_log_only_if_access_is_denied_and_there_is_no_connection(why: LogState, connected: bool) -> None:
    log, reader = watching({f"{TOPIC}/partitions": LogError(why, "no")})
    reader.connected = connected
    error = await log.trouble()
    assert (None if error is None else error.reason) == ("LOG_UNAVAILABLE" if why is LogState.ADMIN_REFUSED and not connected else None)


@pytest.mark.parametrize("why", [LogState.ADMIN_REFUSED, LogState.ADMIN_UNREACHABLE])
@pytest.mark.parametrize("question", ["partitions", "internal-info"])
async def test_a_check_that_has_to_be_sure_raises_if_the_admin_api_does_not_answer(why: LogState, question: str) -> None:
    log, reader = watching({**THERE, f"{TOPIC}/{question}": LogError(why, "no")})
    with pytest.raises(LogError, match="no"):
        await log.trouble(surely=True)
    assert reader.kept_up == 0


async def test_a_check_without_an_answer_is_due_again_soon() -> None:
    log, _ = watching({f"{TOPIC}/partitions": LogError(LogState.ADMIN_UNREACHABLE, "no")})
    assert await log.trouble() is None
    now = time.monotonic()
    assert now + 1 < log.due_at() < now + 3
    log, _ = watching(THERE)
    assert await log.trouble() is None
    assert log.due_at() > now + 3


async def test_an_existing_log_that_does_not_reconnect_in_time_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    log, reader = watching(THERE)
    reader.connected = False
    began = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: began + 10)
    assert await log.trouble() is None
    monkeypatch.setattr(time, "monotonic", lambda: began + 16)
    error = await log.trouble()
    assert error is not None
    assert error.reason == "LOG_UNAVAILABLE"


async def test_a_check_is_due_periodically_and_soon_after_a_disconnection(monkeypatch: pytest.MonkeyPatch) -> None:
    log, reader = watching(THERE)
    began = log.checked

    def is_due(seconds: float) -> bool:
        monkeypatch.setattr(time, "monotonic", lambda: began + seconds)
        return log.due_at() <= began + seconds

    assert not is_due(29) and is_due(31)
    log.checked = began + 31
    reader.connected = False
    assert not is_due(31.5) and is_due(33.6)
    log.checked = began + 40
    reader.connected = True
    assert not is_due(40.5)
    reader.connected = False
    assert not is_due(41), "it was connected half a second ago"


class FakeLog:
    namespace = "acme/orders"

    def __init__(self, *, fails: bool = False, lasts: float = 0.0) -> None:
        self.checked = 0.0
        self.visits = 0
        self.rested = 0
        self.glances = 0
        self.inside = 0
        self.most_inside = 0
        self.fails = fails
        self._lasts = lasts

    def check_connection(self) -> None:
        self.glances += 1

    def close_idle(self) -> None:
        self.rested += 1

    def due_at(self) -> float:
        return 0.0

    async def close(self) -> None:
        """Has nothing to close."""

    async def check(self) -> None:
        self.checked = time.monotonic()
        self.visits += 1
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            await asyncio.sleep(self._lasts)
            if self.fails:
                raise ValueError("an unforeseen error")
        finally:
            self.inside -= 1


@pytest.fixture(autouse=True)
def _many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the checks of most tests begin at any rate."""
    if "thousand" not in request.node.name:
        monkeypatch.setattr(log_module, "_PER_SECOND", 100_000)


def checked(*logs: FakeLog) -> PulsarLog:
    """Returns a cluster's change logs, which are checked from now on every 10 ms."""
    made = PulsarLog("pulsar://127.0.0.1:1", "http://127.0.0.1:1", limits=PulsarLimits(creation_seconds=0.01))
    made._logs = {f"acme/{number}": cast("PulsarNamespaceLog", log) for number, log in enumerate(logs)}
    made._rounds.start()
    return made


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[logging.LogRecord]:
    """The log records of the checks."""
    records: list[logging.LogRecord] = []

    def note(record: logging.LogRecord) -> bool:
        records.append(record)
        return True

    log = logging.Logger("checks")  # noqa: LOG001 - a logger of the test's own, unaffected by other tests
    log.addFilter(note)
    monkeypatch.setattr(log_module, "_log", log)
    return records


async def test_a_log_whose_check_fails_or_hangs_does_not_end_the_checks_of_others(logged: list[logging.LogRecord]) -> None:
    troubled, slow, others = FakeLog(fails=True), FakeLog(lasts=60), [FakeLog() for _ in range(20)]
    checks = checked(troubled, slow, *others)
    await eventually(lambda: troubled.visits > 2 and all(log.visits > 2 for log in others))
    assert slow.visits == slow.most_inside == 1
    assert slow.rested > 2
    assert len(logged) == 1 and "an unforeseen error" in str(logged[0].exc_info)
    troubled.fails = False
    well = troubled.visits + 2
    await eventually(lambda: troubled.visits > well)
    troubled.fails = True
    again = troubled.visits + 2
    await eventually(lambda: troubled.visits > again)
    assert len(logged) == 2, "logged once each time that a check fails after one succeeded"
    await checks.close()
    visits = [log.visits for log in others]
    await asyncio.sleep(0.05)
    assert [log.visits for log in others] == visits
    assert slow.inside == 0


async def test_slow_checks_do_not_delay_the_checks_of_other_logs() -> None:
    slow, others = [FakeLog(lasts=600) for _ in range(20)], [FakeLog() for _ in range(20)]
    checks = checked(*slow, *others)
    await eventually(lambda: all(log.visits > 2 for log in others))
    assert [log.most_inside for log in slow] == [1] * 20
    await checks.close()
    assert [log.inside for log in slow] == [0] * 20
