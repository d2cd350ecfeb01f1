"""Which request comes next, and what it should do to a document, computed without the service's own code."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import fields
from typing import NamedTuple

from tests.simulation.traffic import flat, message_of
from tests.validators.documents import Edit, Value
from topicpolicies.v1.policies_pb2 import TopicPolicies

__all__ = ["Draft", "Traffic", "edit_json", "edit_of", "flat"]

SCALARS = (
    "max_producer_per_topic",
    "max_consumer_per_topic",
    "max_consumers_per_subscription",
    "max_subscriptions_per_topic",
    "message_ttl_in_seconds",
    "compaction_threshold",
    "subscription_expiration_time_in_minutes",
    "deduplication_snapshot_interval_seconds",
)
_SUBSCRIPTIONS = ("billing", "audit", "search", "fraud")
_RATE = "dispatch_rate"
_DEFAULTS = {
    "dispatch_throttling_rate_in_byte": -1,
    "dispatch_throttling_rate_in_msg": -1,
    "rate_period_in_second": 1,
    "relative_to_publish_rate": False,
}
"""What Pulsar's constructor makes of a dispatch rate."""


class Draft(NamedTuple):
    """A change without a topic."""

    edit: Edit
    mask: tuple[str, ...]
    policies: TopicPolicies


class Traffic:
    """The changes of one client. No two clients write the same values, so the changes of all clients can be distinguished."""

    def __init__(self, chance: random.Random, client: int, clients: int, deletes: float) -> None:
        """``deletes``: the share of deletions."""
        self._chance = chance
        self._number = client
        self._step = clients
        self._deletes = deletes
        self._kinds: tuple[Callable[[], Draft], ...] = (
            self._scalar,
            self._scalar,
            self._scalar,
            self._several,
            self._clear,
            self._retention,
            self._subscription,
            self._leaf,
        )

    def draft(self) -> Draft:
        """Returns a change of any kind."""
        if self._chance.random() < self._deletes:
            return Draft(Edit(delete=True), (), TopicPolicies())
        return self._chance.choice(self._kinds)()

    def one_setting(self) -> Draft:
        """Returns a change of one plain setting."""
        return self._scalar()

    def _new(self) -> int:
        self._number = (self._number + self._step) % 1_000_000_000
        return self._number

    def _scalar(self) -> Draft:
        return _sets({self._chance.choice(SCALARS): self._new()})

    def _several(self) -> Draft:
        return _sets({path: self._new() for path in self._chance.sample(SCALARS, 2)})

    def _clear(self) -> Draft:
        path = self._chance.choice(SCALARS)
        return Draft(Edit(clears=(path,)), (path,), TopicPolicies())

    def _retention(self) -> Draft:
        values: dict[str, Value] = {
            "retention_policies.retention_size_in_mb": self._new(),
            "retention_policies.retention_time_in_minutes": self._new(),
        }
        return Draft(Edit(sets=values), ("retention_policies",), message_of(values))

    def _subscription(self) -> Draft:
        name = self._chance.choice(_SUBSCRIPTIONS)
        at = f"subscription_policies.{name}.{_RATE}"
        values: dict[str, Value] = {f"{at}.{leaf}": value for leaf, value in _DEFAULTS.items()}
        values[f"{at}.dispatch_throttling_rate_in_msg"] = self._new()
        return Draft(Edit(sets=values), (f"subscription_policies.`{name}`",), message_of(values))

    def _leaf(self) -> Draft:
        leaf = f"{_RATE}.dispatch_throttling_rate_in_msg"
        values: dict[str, Value] = {leaf: self._new()}
        defaults: dict[str, Value] = {f"{_RATE}.{each}": value for each, value in _DEFAULTS.items()}
        return Draft(Edit(sets=values, defaults=defaults), (leaf,), message_of(values))


def _sets(values: dict[str, Value]) -> Draft:
    return Draft(Edit(sets=values), tuple(values), message_of(values))


def edit_json(edit: Edit) -> str:
    """Returns the effect of a change as it is recorded: the parts that are not empty."""
    return json.dumps({each.name: value for each in fields(edit) if (value := getattr(edit, each.name))})


def edit_of(text: str) -> Edit:
    """Returns the effect of a recorded change."""
    parts = json.loads(text)
    for name in ("clears",):
        if name in parts:
            parts[name] = tuple(parts[name])
    return Edit(**parts)
