"""Namespaces that are deleted with all that is in them, and created anew, while the sidecar's log is in them and a watch is open."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from tests.broker.admin import Admin, AdminError
from tests.plugin.enforcement import soon
from tests.plugin.pair import Pair
from tests.stubs import each, one, reading
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600), pytest.mark.xdist_group("plug-in, namespaces anew")]

_PAUSES = (0.0, 1.0, 4.0, 0.0, 12.0, 2.0, 25.0)
"""Seconds for which the namespace is not there before each of its later lives; tries to load it come to be seconds apart."""
_TOPICS = 3
_SOON_SECONDS = 5.0
"""What a request may take in a namespace that was just created anew, on a machine of two cores with other tests on it."""
_CALL_SECONDS = 30
_SETTINGS = {
    "forceDeleteNamespaceAllowed": "true",
    "topicPoliciesSidecarLoadTimeoutSeconds": "30",
    "topicPoliciesSidecarRequestTimeoutSeconds": "20",
}
"""The plug-in's own times: what is slow here is the first topic of a broker that has just started, and the first life is not measured."""
_FACTS_SECONDS = 11
"""After so long the sidecar does not believe any more what it knew of a namespace, and asks the broker again."""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A broker without system topics, whose namespaces may be deleted with their topics, and a sidecar whose log is in it."""
    made = Pair(tmp_path_factory.mktemp("anew"), log_in_pulsar=True, settings=_SETTINGS)
    try:
        made.broker.start()
        made.start_sidecar()
        yield made
    finally:
        made.close()


class Watching:
    """A watch of a namespace that stays open throughout, as brokers' are."""

    def __init__(self, pair: Pair, namespace: str) -> None:
        self.told: list[service_pb2.WatchEvent] = []
        self.ended: grpc.RpcError | None = None
        self._call = pair.stub.WatchPolicies(service_pb2.WatchPoliciesRequest(namespaces=[namespace]))
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def values(self) -> Sequence[int]:
        """The changes that were told of the first topic."""
        documents = [event.change.document for event in list(self.told) if event.HasField("change")]
        shown = [document for document in documents if document.HasField("policies") and document.topic.endswith("/topic-0")]
        return [document.policies.max_producer_per_topic for document in shown]

    @property
    def failures(self) -> int:
        """How often the namespace could not be loaded, as far as it was told."""
        states = [event.status.state for event in list(self.told) if event.HasField("status")]
        return states.count(service_pb2.NAMESPACE_STATE_FAILED)

    def close(self) -> None:
        """Ends it."""
        self._call.cancel()
        self._thread.join(_CALL_SECONDS)

    def _read(self) -> None:
        try:
            self.told.extend(each(self._call))
        except grpc.RpcError as error:
            self.ended = error


class Life:
    """One life of a namespace. All that is asked in it must succeed; how long that took is kept."""

    def __init__(self, pair: Pair, admin: Admin, namespace: str, number: int) -> None:
        self.took: dict[str, float] = defaultdict(float)
        """The longest time that a request of each kind took."""
        self.newest = 100 * number + 1
        """What is set of the first topic."""
        self._pair = pair
        self._admin = admin
        self._namespace = namespace

    def begin(self) -> None:
        """Creates the namespace; sets, reads and changes policies of its topics, as administrators and other services do."""
        with self._timed("create the namespace"):
            self._admin.call("PUT", f"namespaces/{self._namespace}", {"replication_clusters": ["standalone"]})
        for number in range(_TOPICS):
            self._use(f"{self._namespace}/topic-{number}", self.newest + number)

    def end(self) -> None:
        """Deletes the namespace with all that is in it."""
        with self._timed("delete the namespace"):
            self._admin.call("DELETE", f"namespaces/{self._namespace}", force="true")
        with pytest.raises(AdminError, match="404"):
            self._admin.call("GET", f"namespaces/{self._namespace}")

    def _use(self, topic: str, value: int) -> None:
        with self._timed("create a topic"):
            self._admin.create_topic(topic)
        assert self._admin.call("GET", f"persistent/{topic}/maxConsumers") is None, "a topic begins without the policies of its last life"
        for kind in ("maxProducers", "maxConsumers"):
            with self._timed("change at the broker"):
                self._admin.call("POST", f"persistent/{topic}/{kind}", value)
            assert self._admin.call("GET", f"persistent/{topic}/{kind}") == value
        with self._timed("read at the sidecar"):
            answer = one(self._pair.stub.GetPolicy(reading(topic), timeout=_CALL_SECONDS))
        assert answer.policies == TopicPolicies(max_producer_per_topic=value, max_consumer_per_topic=value)
        update = service_pb2.UpdatePolicyRequest(topic=topic, policies=TopicPolicies(message_ttl_in_seconds=value))
        with self._timed("change at the sidecar"):
            self._pair.stub.UpdatePolicy(update, timeout=_CALL_SECONDS)

    @contextlib.contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.took[what] = max(self.took[what], time.monotonic() - began)


def _told(watching: Watching, life: Life) -> None:
    soon(lambda: life.newest in watching.values, "the watch tells of this life")


def test_a_namespace_that_is_deleted_and_created_anew_is_served_at_once_while_a_watch_is_open(bare: Pair) -> None:
    namespace, later = "public/anew", []
    with bare.admin as admin:
        first = Life(bare, admin, namespace, 0)
        first.begin()
        watching = Watching(bare, namespace)
        _told(watching, first)
        first.end()
        for number, pause in enumerate(_PAUSES, start=1):
            time.sleep(pause)
            life = Life(bare, admin, namespace, number)
            later.append(life)
            life.begin()
            _told(watching, life)
            life.end()
    assert watching.ended is None, "it is the same watch"
    watching.close()
    assert watching.failures >= 2, "the sidecar had tried to load what was not there"
    slowest = {what: max(life.took[what] for life in later) for what in first.took}
    assert max(slowest.values()) < _SOON_SECONDS, slowest


def test_a_namespace_is_deleted_with_its_policies_although_the_sidecar_is_told_that_it_is_gone(bare: Pair) -> None:
    with bare.admin as admin, ThreadPoolExecutor(1) as thread:
        for number in range(2):
            life = Life(bare, admin, "public/half-way", number)
            life.begin()
            watching = Watching(bare, "public/half-way")
            _told(watching, life)
            bare.sidecar.pause()
            try:
                ending = thread.submit(life.end)
                time.sleep(_FACTS_SECONDS)
                assert not ending.done(), "it waits for the sidecar, which asks the broker when it goes on"
            finally:
                bare.sidecar.resume()
            ending.result(timeout=_CALL_SECONDS)
            soon(lambda: watching.failures > 0, "the sidecar has let go of the log that was deleted")  # noqa: B023 (called at once)
            watching.close()
