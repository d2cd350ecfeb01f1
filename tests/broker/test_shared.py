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
    """What was started, each of which takes until all have asked."""

    def __init__(self) -> None:
        self.of: list[str] = []
        self.all_asked = threading.Event()

    def __call__(self, version: str) -> Broker:
        """Starts one; ``none`` can't be had."""
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
def desk(starts: _Starts) -> Iterator[shared.Desk]:
    made = shared.Desk(shared.Brokers())
    yield made
    made.close()


def test_a_broker_is_started_once_and_is_the_same_for_all_who_ask_meanwhile(desk: shared.Desk, starts: _Starts) -> None:
    with ThreadPoolExecutor(_ASKING) as threads:
        asked = [threads.submit(shared.Away(desk.address).of, version) for version in ("4.2.4", "4.0.0") * (_ASKING // 2)]
        starts.all_asked.set()
        told = [broker.result(20) for broker in asked]
    assert sorted(starts.of) == ["4.0.0", "4.2.4"]
    assert {(broker.version, broker.pid, broker.service_url) for broker in told} == {
        (broker.version, broker.pid, broker.service_url) for broker in told[:2]
    }


def test_who_asks_for_a_broker_that_cannot_be_had_is_told_why(desk: shared.Desk) -> None:
    with pytest.raises(BrokerUnavailableError, match="there is none"):
        shared.Away(desk.address).of("none")


def test_who_asks_in_vain_does_not_keep_others_from_asking(desk: shared.Desk, starts: _Starts) -> None:
    starts.all_asked.set()
    away = shared.Away(desk.address)
    with pytest.raises(BrokerUnavailableError):
        away.of("none")
    assert away.of("4.2.4") is away.of("4.2.4")
    assert starts.of == ["none", "4.2.4"]


def test_all_processes_of_this_run_know_one_broker(pytestconfig: pytest.Config) -> None:
    assert isinstance(pytestconfig.stash[shared.KEY], shared.Away if hasattr(pytestconfig, "workerinput") else shared.Brokers)
