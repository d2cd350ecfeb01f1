"""The settings that writers own: each has a number that its writer counts up, so that a change that is undone decreases it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from topicpolicies.v1.policies_pb2 import DispatchRate, PublishRate, SubscribeRate, SubscriptionPolicies, TopicPolicies


class Owned(NamedTuple):
    """A setting that only one writer changes."""

    setting: str
    """Its name: the field of the document, and the key of a map's entry."""
    path: str
    """The path in field masks."""
    rest: str
    """The endpoint of the admin API, below the topic."""
    policies: Callable[[int], TopicPolicies]
    """Returns a document with this number only."""
    read: Callable[[TopicPolicies], int]
    """Returns the number in a document; 0 if it is not set."""
    json: Callable[[int], Any]
    """Returns the body of the admin API's request."""
    of_json: Callable[[Any], int]
    """Returns the number in the admin API's answer; 0 if it is not set."""
    stored: tuple[str, ...]
    """Where the number is in a document of the log, by the names of the broker's schema."""

    def of(self, document: Mapping[str, Any]) -> int:
        """Returns the number in a document of the log; 0 if it is not set."""
        value: Any = document
        for name in self.stored:
            value = (value or {}).get(name)
        return int(value or 0)

    def put(self, document: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Returns a document of the log with another number."""
        name, *rest = self.stored
        value: Any = number
        if rest:
            value = {**_OTHERS.get(name, _DISPATCH), rest[-1]: number}
        if len(rest) > 1:
            value = {**document[name], rest[0]: {rest[1]: value}}
        return {**document, name: value}


_DISPATCH = {"dispatchThrottlingRateInByte": -1, "relativeToPublishRate": False, "ratePeriodInSecond": 1}
_OTHERS: Mapping[str, Mapping[str, Any]] = {
    "publishRate": {"publishThrottlingRateInByte": -1},
    "subscribeRate": {"ratePeriodInSecond": 30},
}
"""The other leaves of rates that are made for a number."""


def _camel(name: str) -> str:
    return TopicPolicies.DESCRIPTOR.fields_by_name[name].json_name


def _number(name: str, rest: str) -> Owned:
    return Owned(
        name,
        name,
        rest,
        lambda number: TopicPolicies(**{name: number}),  # type: ignore[arg-type]
        lambda policies: int(getattr(policies, name)),
        lambda number: number,
        lambda answer: int(answer or 0),
        (_camel(name),),
    )


def _dispatch(number: int) -> DispatchRate:
    return DispatchRate(dispatch_throttling_rate_in_msg=number, dispatch_throttling_rate_in_byte=-1, rate_period_in_second=1)


def _rate(name: str, rest: str, make: Callable[[int], Any], leaf: str, member: str) -> Owned:
    def policies(number: int) -> TopicPolicies:
        made = TopicPolicies()
        getattr(made, name).CopyFrom(make(number))
        return made

    return Owned(
        name,
        name,
        rest,
        policies,
        lambda document: int(getattr(getattr(document, name), leaf)),
        lambda number: {member: number},
        lambda answer: int((answer or {}).get(member, 0)),
        (_camel(name), member),
    )


def _subscription(name: str) -> Owned:
    return Owned(
        f"subscription_policies/{name}",
        f"subscription_policies.`{name}`",
        f"{name}/dispatchRate",
        lambda number: TopicPolicies(subscription_policies={name: SubscriptionPolicies(dispatch_rate=_dispatch(number))}),
        lambda document: (
            int(document.subscription_policies[name].dispatch_rate.dispatch_throttling_rate_in_msg)
            if name in document.subscription_policies
            else 0
        ),
        lambda number: {"dispatchThrottlingRateInMsg": number},
        lambda answer: int((answer or {}).get("dispatchThrottlingRateInMsg", 0)),
        ("subscriptionPolicies", name, "dispatchRate", "dispatchThrottlingRateInMsg"),
    )


REST: tuple[Owned, ...] = (
    _number("max_producer_per_topic", "maxProducers"),
    _number("max_consumer_per_topic", "maxConsumers"),
    _number("max_subscriptions_per_topic", "maxSubscriptionsPerTopic"),
    _number("compaction_threshold", "compactionThreshold"),
)
"""The settings that administrators change over the admin API, each in a thread of its own."""
_MESSAGES = ("dispatch_throttling_rate_in_msg", "dispatchThrottlingRateInMsg")
CLIENTS: tuple[Owned, ...] = (
    _number("max_consumers_per_subscription", "maxConsumersPerSubscription"),
    _number("max_unacked_messages_on_consumer", "maxUnackedMessagesOnConsumer"),
    _number("max_unacked_messages_on_subscription", "maxUnackedMessagesOnSubscription"),
    _number("max_message_size", "maxMessageSize"),
    _number("message_ttl_in_seconds", "messageTTL"),
    _number("subscription_expiration_time_in_minutes", "subscriptionExpirationTime"),
    _number("deduplication_snapshot_interval_seconds", "deduplicationSnapshotInterval"),
    _rate("dispatch_rate", "dispatchRate", _dispatch, *_MESSAGES),
    _rate("subscription_dispatch_rate", "subscriptionDispatchRate", _dispatch, *_MESSAGES),
    _rate("replicator_dispatch_rate", "replicatorDispatchRate", _dispatch, *_MESSAGES),
    _rate(
        "publish_rate",
        "publishRate",
        lambda number: PublishRate(publish_throttling_rate_in_msg=number, publish_throttling_rate_in_byte=-1),
        "publish_throttling_rate_in_msg",
        "publishThrottlingRateInMsg",
    ),
    _rate(
        "subscribe_rate",
        "subscribeRate",
        lambda number: SubscribeRate(subscribe_throttling_rate_per_consumer=number, rate_period_in_second=30),
        "subscribe_throttling_rate_per_consumer",
        "subscribeThrottlingRatePerConsumer",
    ),
    *map(_subscription, ("one", "two", "three", "four")),
)
"""The settings that clients of the sidecars change, each with one client."""
ALL = (*REST, *CLIENTS)
