"""Eight threads that set different fields of one topic over the admin API, and a client that changes it over gRPC, lose no change."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.promises.plugin.enforcement import soon
from tests.promises.plugin.pair import Pair
from topicpolicies.v1.policies_pb2 import TopicPolicies

pytestmark = [pytest.mark.broker]

_ROUNDS = 15
_FIELDS = {
    "maxProducers": "max_producer_per_topic",
    "maxConsumers": "max_consumer_per_topic",
    "maxConsumersPerSubscription": "max_consumers_per_subscription",
    "maxSubscriptionsPerTopic": "max_subscriptions_per_topic",
    "maxUnackedMessagesOnConsumer": "max_unacked_messages_on_consumer",
    "maxUnackedMessagesOnSubscription": "max_unacked_messages_on_subscription",
    "compactionThreshold": "compaction_threshold",
    "deduplicationSnapshotInterval": "deduplication_snapshot_interval_seconds",
}


def test_eight_administrators_and_a_client_lose_nothing(pair: Pair, topic: str) -> None:
    conflicts = pair.metric("conflicts_total")
    done = threading.Event()

    def administrator(path: str) -> None:
        with pair.admin as admin:
            for value in range(1, _ROUNDS + 1):
                admin.call("POST", f"persistent/{topic}/{path}", value)
                assert admin.call("GET", f"persistent/{topic}/{path}") == value, "an administrator reads its own change at once"

    def other() -> int:
        writes = 0
        while not done.is_set():
            writes += 1
            pair.api.update(topic, {"message_ttl_in_seconds": writes})
            done.wait(0.01)
        return writes

    with ThreadPoolExecutor(len(_FIELDS) + 1) as threads:
        beside = threads.submit(other)
        try:
            list(threads.map(administrator, _FIELDS))
        finally:
            done.set()
        writes = beside.result()
    expected = TopicPolicies(message_ttl_in_seconds=writes, **dict.fromkeys(_FIELDS.values(), _ROUNDS))  # type: ignore[arg-type]
    assert pair.api.get(topic).policies == expected
    with pair.admin as admin:
        soon(lambda: bool(admin.call("GET", f"persistent/{topic}/messageTTL") == writes), "the broker has the other writer's last change")
        assert {path: admin.call("GET", f"persistent/{topic}/{path}") for path in _FIELDS} == dict.fromkeys(_FIELDS, _ROUNDS)
    assert writes > _ROUNDS
    assert pair.metric("conflicts_total") > conflicts, "without conflicts the run proves nothing"
