"""Requesting the leadership of a log: refused, waiting, replaying, leading, and stepping down at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.eventually import eventually
from tests.logs.pulsar.fakes import FakeProducer
from topicpolicies_server.core.policies.events import Position
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.avro import Codec
from topicpolicies_server.logs.change_log import Leadership, LogError
from topicpolicies_server.logs.leadership import Candidate, ProducerTaken, leader_name, leader_of, origin_of
from topicpolicies_server.logs.pulsar.client import holder_of
from topicpolicies_server.logs.pulsar.writer import OpenProducer

TAKEN = ProducerTaken()
EXCLUSIVE, WAIT_FOR_EXCLUSIVE = False, True
OURS, THEIRS = "ours:1", "theirs:2"


class FakeLog:
    """Gives the answers of a test, and records what happens."""

    def __init__(self, partitions: int = 1) -> None:
        self.answers: list[BaseException] = []
        self.asked: list[tuple[int, bool]] = []
        self.names: list[str] = []
        self.opened: list[FakeProducer] = []
        self.announced: list[int] = []
        self.reports: list[str] = []
        self.producers: Sequence[OpenProducer] = ()
        self.failing: Exception | None = None
        self.candidate: Candidate[OpenProducer] = Candidate(self, "a/b", partitions, "standalone", OURS)

    async def open_exclusively(self, partition: int, name: str, *, wait: bool) -> OpenProducer:
        self.asked.append((partition, wait))
        self.names.append(name)
        await asyncio.sleep(0)
        if self.answers:
            raise self.answers.pop(0)
        self.opened.append(FakeProducer())
        return OpenProducer(self.opened[-1], Codec(), 0)

    async def announce(self, partition: int, producer: OpenProducer) -> Position:
        del producer
        if self.failing is not None:
            raise self.failing
        self.announced.append(partition)
        return "5"

    def elected(self, producers: Sequence[OpenProducer]) -> None:
        assert self.candidate.leadership.leads
        self.reports.append("elected")
        self.producers = producers

    def deposed(self, error: LogError) -> None:
        assert not self.candidate.leadership.leads
        self.reports.append(f"deposed {error.reason}")

    def led(self) -> None:
        self.reports.append("led")

    async def lead(self, partitions: int = 1) -> None:
        """Becomes the leader, from the first step of a term."""
        self.candidate.contend()
        await eventually(lambda: len(self.announced) >= partitions)
        for partition in range(partitions):
            self.candidate.read_up_to(partition, "5")
        await eventually(lambda: self.candidate.leadership.leads)


@pytest.fixture
async def log() -> AsyncIterator[FakeLog]:
    made = FakeLog()
    yield made
    made.candidate.stop()


async def test_a_process_that_does_not_contend_opens_no_producer(log: FakeLog) -> None:
    await asyncio.sleep(0.05)
    assert log.asked == []
    assert log.candidate.leadership == Leadership(False)


async def test_a_candidate_leads_a_free_log_only_after_it_has_read_up_to_its_announcement(log: FakeLog) -> None:
    log.candidate.contend()
    await eventually(lambda: log.announced)
    log.candidate.read_up_to(0, "4")
    await asyncio.sleep(0.05)
    assert not log.candidate.leadership.leads
    log.candidate.read_up_to(0, "5")
    await eventually(lambda: log.candidate.leadership.leads)
    assert log.asked == [(0, EXCLUSIVE)]
    assert log.reports == ["elected"]
    assert log.candidate.leadership == Leadership(True, OURS)


async def test_a_candidate_waits_for_a_taken_log_repeatedly_and_reports_its_leader(log: FakeLog) -> None:
    log.candidate.note_producer(leader_name("standalone", THEIRS))
    log.answers = [TAKEN, TAKEN, TAKEN, TAKEN]
    log.candidate.contend()
    await eventually(lambda: "led" in log.reports)
    assert log.candidate.leadership == Leadership(False, THEIRS)
    await log.lead()
    assert [wait for _, wait in log.asked] == [EXCLUSIVE, *[WAIT_FOR_EXCLUSIVE] * 4]
    assert len(set(log.names)) == 5, "each attempt needs a new name"


@pytest.mark.parametrize("holder", ["", leader_name("standalone", "another:3")], ids=["none", "a leader that has not announced itself"])
async def test_a_leader_whose_term_is_known_to_be_over_is_not_named(holder: str, log: FakeLog) -> None:
    former = leader_name("standalone", THEIRS)
    log.candidate.note_producer(former)
    log.answers = [ProducerTaken(holder), *[TAKEN] * 10_000]
    log.candidate.contend()
    await eventually(lambda: "led" in log.reports)
    assert log.candidate.leadership == Leadership(False)
    log.candidate.note_producer(former)  # a late event of the former term
    assert log.candidate.leadership == Leadership(False)
    log.candidate.note_producer(leader_name("standalone", THEIRS))
    assert log.candidate.leadership == Leadership(False, THEIRS), "the same process leads again"
    assert log.reports == ["led", "led"]


async def test_the_leader_that_holds_the_producer_is_named(log: FakeLog) -> None:
    present = leader_name("standalone", THEIRS)
    log.candidate.note_producer(present)
    log.answers = [ProducerTaken(present), *[TAKEN] * 10_000]
    log.candidate.contend()
    await eventually(lambda: "led" in log.reports)
    assert log.candidate.leadership == Leadership(False, THEIRS)


@pytest.mark.parametrize(
    ("said", "holder"),
    [
        ("Topic has an existing exclusive producer: topicpolicies/east/0a/one:1", "topicpolicies/east/0a/one:1"),
        ("Topic has an existing exclusive producer: null", ""),
        ("Topic has existing shared producers", ""),
        ("Producer with name 'x' is already connected to topic", None),
        ("", None),
    ],
)
def test_who_holds_the_producer_is_read_from_the_brokers_refusal(said: str, holder: str | None) -> None:
    assert holder_of(said and f"org.apache.pulsar.broker.service.BrokerServiceException$ProducerFencedException: {said}") == holder


async def test_a_producer_name_of_another_cluster_or_of_this_process_is_not_reported_as_the_leader(log: FakeLog) -> None:
    log.answers = [TAKEN, *[TAKEN] * 10_000]
    log.candidate.contend()
    await eventually(lambda: "led" in log.reports)
    for name in ("standalone-0-7", leader_name("elsewhere", THEIRS), leader_name("standalone", OURS)):
        log.candidate.note_producer(name)
        assert log.candidate.leadership.leader == ""
    log.candidate.note_producer(leader_name("standalone", THEIRS))
    assert log.candidate.leadership.leader == THEIRS
    assert log.reports[-1] == "led"


async def test_the_producers_of_the_other_partitions_are_opened_after_that_of_partition_0_under_the_same_name() -> None:
    log = FakeLog(partitions=3)
    await log.lead(3)
    assert log.asked == [(0, EXCLUSIVE), (1, WAIT_FOR_EXCLUSIVE), (2, WAIT_FOR_EXCLUSIVE)]
    assert len(set(log.names)) == 1
    assert sorted(log.announced) == [0, 1, 2]
    assert [producer.handle for producer in log.producers] == log.opened
    log.candidate.stop()


@pytest.mark.parametrize("lost", [0, 2])
async def test_a_leader_that_loses_one_connection_closes_all_producers_at_once_and_starts_a_new_attempt(lost: int) -> None:
    log = FakeLog(partitions=3)
    await log.lead(3)
    log.candidate.check_connection()
    assert log.reports == ["elected"]
    log.opened[lost].connected = False
    log.candidate.check_connection()
    assert log.reports == ["elected", "deposed LOG_UNAVAILABLE"]
    assert all(producer.closed for producer in log.opened)
    assert log.candidate.leadership == Leadership(False)
    await eventually(lambda: len(log.announced) == 6)
    assert log.asked[3] == (0, EXCLUSIVE)
    log.candidate.stop()


async def test_a_connection_that_is_lost_before_the_term_begins_ends_the_attempt(log: FakeLog) -> None:
    log.candidate.contend()
    await eventually(lambda: log.announced)
    log.opened[0].connected = False
    log.candidate.check_connection()
    log.candidate.read_up_to(0, "5")
    await eventually(lambda: len(log.opened) == 2)
    assert log.opened[0].closed
    assert "deposed LOG_UNAVAILABLE" not in log.reports


async def test_an_error_that_prevents_leading_is_reported_and_the_attempt_is_repeated(log: FakeLog) -> None:
    log.answers = [LogError(LogState.ACCESS_DENIED, "the sidecar lacks the permission")]
    log.candidate.contend()
    await eventually(lambda: log.candidate.leadership.problem)
    assert "lacks the permission" in log.candidate.leadership.problem
    await log.lead()
    assert log.candidate.leadership.problem == ""


async def test_an_announcement_that_is_not_stored_ends_the_attempt_and_closes_the_producer(log: FakeLog) -> None:
    log.failing = LogError(LogState.FENCED, "another process has it")
    log.candidate.contend()
    await eventually(lambda: log.candidate.leadership.problem)
    assert log.opened[0].closed
    log.failing = None
    await log.lead()


def test_the_name_of_a_leader_contains_its_cluster_and_its_address() -> None:
    for address in ("sidecar-1:6680", "[::1]:6680", "unix:/run/a/b-1-2"):
        name = leader_name("us-east-1", address)
        assert (leader_of(name), origin_of(name)) == (address, "us-east-1")
    assert leader_of("standalone-0-23") == ""
    assert origin_of("standalone-0-23") == "standalone"
