"""Namespaces that are deleted with all their topics, and created again, while the sidecar's log is in them and a watch is open."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.broker.admin import Admin, AdminError
from tests.promises.api import Event, Refused
from tests.promises.blocking import BlockingApi
from tests.promises.plugin.enforcement import soon
from tests.promises.plugin.pair import Pair
from topicpolicies.v1.policies_pb2 import TopicPolicies

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

_PAUSES = (0.0, 12.0)
"""Seconds for which the namespace does not exist before it is created again; the sidecar's retries become seconds apart meanwhile."""
_TOPICS = 3
_SOON_SECONDS = 5.0
"""How long a request may take in a namespace that was just created again, on a machine of two cores that also runs other tests."""
_CALL_SECONDS = 30
_FACTS_SECONDS = 11
"""After this time the sidecar's facts about a namespace have expired, and it requests them from the broker again."""


class Watching:
    """A watch of a namespace that stays open all the time, like those of brokers."""

    def __init__(self, pair: Pair, namespace: str) -> None:
        self.events: list[Event] = []
        self.ended: Refused | None = None
        self._api = BlockingApi(pair.sidecar.address)
        self._api.__enter__()
        self._watch = self._api.watch(namespaces=[namespace], timeout=None)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def values(self) -> Sequence[int]:
        """The values of the first topic that the watch has sent."""
        documents = [event.document for event in list(self.events) if event.document is not None]
        return [each.policies.max_producer_per_topic for each in documents if each.policies is not None and each.topic.endswith("/topic-0")]

    @property
    def failures(self) -> int:
        """How often the watch has sent the state FAILED."""
        return [event.state for event in list(self.events)].count("FAILED")

    def close(self) -> None:
        """Ends the watch."""
        self._api.stop()
        self._thread.join(_CALL_SECONDS)
        self._api.__exit__(None, None, None)

    def _read(self) -> None:
        try:
            self.events.extend(self._watch)
        except Refused as error:
            self.ended = error


class Life:
    """One life of a namespace, from its creation to its deletion. All requests in it must succeed; their times are recorded."""

    def __init__(self, pair: Pair, admin: Admin, namespace: str, number: int) -> None:
        self.took: dict[str, float] = defaultdict(float)
        """The longest time that a request of each kind took."""
        self.newest = 100 * number + 1
        """The value that is set on the first topic."""
        self._pair = pair
        self._admin = admin
        self._namespace = namespace

    def begin(self) -> None:
        """Creates the namespace and topics, and sets, reads and changes policies, as administrators and other services do."""
        with self._timed("create the namespace"):
            self._admin.call("PUT", f"namespaces/{self._namespace}", {"replication_clusters": ["standalone"]})
        for number in range(_TOPICS):
            self._use(f"{self._namespace}/topic-{number}", self.newest + number)

    def end(self) -> None:
        """Deletes the namespace with all its topics."""
        with self._timed("delete the namespace"):
            self._admin.call("DELETE", f"namespaces/{self._namespace}", force="true")
        with pytest.raises(AdminError, match="404"):
            self._admin.call("GET", f"namespaces/{self._namespace}")

    def _use(self, topic: str, value: int) -> None:
        with self._timed("create a topic"):
            self._admin.create_topic(topic)
        assert self._admin.call("GET", f"persistent/{topic}/maxConsumers") is None, "policies of the deleted topic of this name are gone"
        for kind in ("maxProducers", "maxConsumers"):
            with self._timed("change at the broker"):
                self._admin.call("POST", f"persistent/{topic}/{kind}", value)
            assert self._admin.call("GET", f"persistent/{topic}/{kind}") == value
        with self._timed("read at the sidecar"):
            answer = self._pair.api.get(topic, timeout=_CALL_SECONDS)
        assert answer.policies == TopicPolicies(max_producer_per_topic=value, max_consumer_per_topic=value)
        with self._timed("change at the sidecar"):
            self._pair.api.update(topic, {"message_ttl_in_seconds": value}, timeout=_CALL_SECONDS)

    @contextlib.contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.took[what] = max(self.took[what], time.monotonic() - began)


def _wait_until_sent(watching: Watching, life: Life) -> None:
    soon(lambda: life.newest in watching.values, "the watch has sent the value of this life")


def test_a_namespace_that_is_created_anew_is_served_at_once(bare: Pair) -> None:
    namespace, later = "public/anew", []
    with bare.admin as admin:
        first = Life(bare, admin, namespace, 0)
        first.begin()
        watching = Watching(bare, namespace)
        _wait_until_sent(watching, first)
        first.end()
        for number, pause in enumerate(_PAUSES, start=1):
            time.sleep(pause)
            life = Life(bare, admin, namespace, number)
            later.append(life)
            life.begin()
            _wait_until_sent(watching, life)
            life.end()
    assert watching.ended is None, "the watch has not ended"
    watching.close()
    assert watching.failures, "the sidecar had tried to load the deleted namespace"
    slowest = {what: max(life.took[what] for life in later) for what in first.took}
    assert max(slowest.values()) < _SOON_SECONDS, slowest


def test_a_namespace_is_deleted_although_the_sidecar_learns_it_first(bare: Pair) -> None:
    with bare.admin as admin, ThreadPoolExecutor(1) as thread:
        life = Life(bare, admin, "public/half-way", 0)
        life.begin()
        watching = Watching(bare, "public/half-way")
        _wait_until_sent(watching, life)
        bare.sidecar.pause()
        try:
            ending = thread.submit(life.end)
            time.sleep(_FACTS_SECONDS)
            assert not ending.done(), "the deletion waits for the sidecar, which asks the broker when it resumes"
        finally:
            bare.sidecar.resume()
        ending.result(timeout=_CALL_SECONDS)
        soon(lambda: watching.failures > 0, "the sidecar has let go of the log that was deleted")
        watching.close()
