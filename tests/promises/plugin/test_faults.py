"""The sidecar ends and starts again, the broker is restarted, and topics that need no sidecar do not wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pulsar
import pytest

from tests.broker.admin import Admin, AdminError
from tests.promises.api import Update
from tests.promises.plugin.enforcement import admits_another_producer, soon
from tests.promises.plugin.pair import Pair
from topicpolicies.v1.policies_pb2 import TopicPolicies

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

_SECONDS = 120
_LOAD_TIMEOUT_S = 5


@pytest.fixture
def killing(pair: Pair, topic: str) -> Iterator[Callable[[], None]]:
    """Kills the sidecar when it is called, after the test's topic was created; after the test a sidecar runs, however the test ended."""
    lives = pair.sidecar.lives
    yield pair.sidecar.kill
    if pair.sidecar.lives == lives:
        pair.sidecar.kill()
        pair.start_sidecar()


@pytest.fixture
def without_sidecar(killing: Callable[[], None]) -> None:
    """Kills the sidecar before the test."""
    killing()


def test_without_the_sidecar_known_policies_hold_and_changes_are_refused(
    pair: Pair, own: Admin, topic: str, client: pulsar.Client, killing: Callable[[], None]
) -> None:
    first = client.create_producer(f"persistent://{topic}")
    own.call("POST", f"persistent/{topic}/maxProducers", 1)
    killing()
    assert own.call("GET", f"persistent/{topic}/maxProducers") == 1
    assert not admits_another_producer(client, topic)
    own.call("PUT", f"persistent/{topic}/unload")
    own.create_topic(f"{topic}-new")
    soon(lambda: _producers(own, topic) == 1, "the unloaded topic loads again without the sidecar")
    assert not admits_another_producer(client, topic), "the broker enforces the policies that it knows"
    with pytest.raises(AdminError, match="503"):
        own.call("POST", f"persistent/{topic}/maxProducers", 2)
    pair.start_sidecar()
    pair.api.patiently(Update(topic, TopicPolicies(max_producer_per_topic=2)))
    soon(lambda: admits_another_producer(client, topic), "the broker has caught up")
    own.call("POST", f"persistent/{topic}/maxConsumers", 4)
    assert own.call("GET", f"persistent/{topic}/maxConsumers") == 4
    first.close()


def test_an_update_waits_for_a_sidecar_that_is_being_restarted(pair: Pair, own: Admin, topic: str, killing: Callable[[], None]) -> None:
    own.call("POST", f"persistent/{topic}/maxProducers", 1)
    killing()
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(own.call, "POST", f"persistent/{topic}/maxProducers", 2)
        pair.start_sidecar()
        waiting.result(timeout=_SECONDS)
    assert own.call("GET", f"persistent/{topic}/maxProducers") == 2


@pytest.mark.usefixtures("without_sidecar")
def test_a_topic_whose_policies_are_not_known_fails_to_load(pair: Pair, own: Admin, topic: str) -> None:
    unknown = own.create_namespace("unknown")
    with ThreadPoolExecutor(6) as threads:
        began = time.monotonic()
        loads = [threads.submit(own.create_topic, f"{unknown}/topic-{number}") for number in range(6)]
        time.sleep(0.5)
        asked = time.monotonic()
        assert own.call("GET", f"persistent/{topic}/maxProducers") is None
        assert time.monotonic() - asked < 1, "requests for known topics do not wait"
        assert not any(load.done() for load in loads), "the loads still wait"
        for load in loads:
            with pytest.raises(AdminError, match="not known yet"):
                load.result(timeout=_SECONDS)
    assert _LOAD_TIMEOUT_S - 1 < time.monotonic() - began < _LOAD_TIMEOUT_S + 5
    pair.start_sidecar()
    soon(lambda: _loads(own, f"{unknown}/topic-0"), "the topic loads when the sidecar is back")


@pytest.mark.usefixtures("without_sidecar")
def test_updates_without_the_sidecar_are_refused_with_503(own: Admin, topic: str) -> None:
    def refused(value: int) -> bool:
        try:
            own.call("POST", f"persistent/{topic}/maxProducers", value)
        except AdminError as error:
            return error.status == 503
        return False

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(refused, range(1, 9)))


@pytest.mark.usefixtures("without_sidecar")
def test_topics_without_policies_load_without_the_sidecar(own: Admin, client: pulsar.Client) -> None:
    disabled = own.create_namespace("disabled")
    own.call("PUT", f"namespaces/{disabled}/property/__topic_policies_disabled/true")
    began = time.monotonic()
    own.create_topic(f"{disabled}/topic")
    own.create_topic(f"{own.create_namespace('system')}/__change_events")
    assert time.monotonic() - began < _LOAD_TIMEOUT_S - 1
    with pytest.raises(AdminError, match=r"405.*are disabled by the property"):
        own.call("POST", f"persistent/{disabled}/topic/maxProducers", 1)
    client.create_producer(f"persistent://{disabled}/topic").close()


def test_a_restarted_broker_has_and_enforces_its_policies(pair: Pair, own: Admin, topic: str) -> None:
    own.call("POST", f"persistent/{topic}/maxProducers", 1)
    own.call("POST", f"persistent/{topic}/maxConsumers", 9, isGlobal="true")
    pair.broker.stop()
    pair.broker.start()
    with pair.admin as again:
        assert again.call("GET", f"persistent/{topic}/maxProducers") == 1
        assert again.call("GET", f"persistent/{topic}/maxConsumers", isGlobal="true") == 9
    client = pulsar.Client(pair.broker.service_url, operation_timeout_seconds=60, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.create_producer(f"persistent://{topic}")
    assert not admits_another_producer(client, topic)
    client.close()


def _producers(admin: Admin, topic: str) -> int:
    """Returns how many producers a topic has at the broker. A client's own view of it is late after the topic was unloaded."""
    try:
        return len(admin.call("GET", f"persistent/{topic}/stats")["publishers"])
    except AdminError as error:
        assert error.status == 404, error
        return 0


def _loads(admin: Admin, topic: str) -> bool:
    try:
        admin.create_topic(topic)
    except AdminError as error:
        return error.status == 409
    return True
