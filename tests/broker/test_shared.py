"""Processes of a run share its brokers."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.broker import shared
from tests.broker.configuration import Ports, Security
from tests.broker.jars import BrokerUnavailableError
from tests.broker.pulsar_broker import Broker

_ASKING = 8


class _Starts:
    """Starts brokers; each start takes until all threads have asked."""

    def __init__(self) -> None:
        self.of: list[str] = []
        self.all_asked = threading.Event()

    def __call__(self, version: str) -> Broker:
        """Starts a broker; the version ``none`` can't be run."""
        self.of.append(version)
        if version == "none":
            raise BrokerUnavailableError("there is none")
        self.all_asked.wait(10)
        return Broker(version, Path("/nowhere"), Ports(), Security(), pid=len(self.of))


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> _Starts:
    planned = _Starts()
    monkeypatch.setattr(shared, "_started", planned)
    return planned


@pytest.fixture
def directory(starts: _Starts) -> Iterator[shared.BrokerDirectory]:
    made = shared.BrokerDirectory(shared.Brokers())
    yield made
    made.close()


def test_a_broker_is_started_once_for_all_processes_that_ask_during_its_start(directory: shared.BrokerDirectory, starts: _Starts) -> None:
    with ThreadPoolExecutor(_ASKING) as threads:
        asked = [threads.submit(shared.RemoteBrokers(directory.address).of, version) for version in ("4.2.4", "4.0.0") * (_ASKING // 2)]
        starts.all_asked.set()
        found = [broker.result(20) for broker in asked]
    assert sorted(starts.of) == ["4.0.0", "4.2.4"]
    assert {(broker.version, broker.pid, broker.service_url) for broker in found} == {
        (broker.version, broker.pid, broker.service_url) for broker in found[:2]
    }


def test_a_process_that_asks_for_a_broker_that_cannot_be_run_receives_the_reason(directory: shared.BrokerDirectory) -> None:
    with pytest.raises(BrokerUnavailableError, match="there is none"):
        shared.RemoteBrokers(directory.address).of("none")


def test_a_failed_question_for_a_broker_does_not_block_further_questions(directory: shared.BrokerDirectory, starts: _Starts) -> None:
    starts.all_asked.set()
    remote = shared.RemoteBrokers(directory.address)
    with pytest.raises(BrokerUnavailableError):
        remote.of("none")
    assert remote.of("4.2.4") is remote.of("4.2.4")
    assert starts.of == ["none", "4.2.4"]


def test_every_process_of_this_run_has_the_shared_source_of_brokers(pytestconfig: pytest.Config) -> None:
    assert isinstance(pytestconfig.stash[shared.KEY], shared.RemoteBrokers if hasattr(pytestconfig, "workerinput") else shared.Brokers)
