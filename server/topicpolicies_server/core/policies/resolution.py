"""Effective policies: those that hold for a topic, from its two documents, its namespace's policies and the brokers' configuration.

Each field has the value of the first level that sets it, in the order topic LOCAL, topic GLOBAL, namespace, broker
(``PolicyHierarchyValue``, ``AbstractTopic.updateTopicPolicy`` and its siblings). Some values count as unset: negative counts and times,
dispatch and publish rates without a limit, subscribe rates without a limit or a period, and empty lists. The brokers' own values count as
they are.

The exceptions, as in the brokers:

- backlog quotas resolve one by one, by type;
- subscriptions' policies are a union of the topic's two documents, LOCAL winning per subscription; there is no other level;
- offload policies are those of the LOCAL document, else of the GLOBAL one; leaves that are unset there are taken from the namespace, then
  from the brokers, and the driver's further configuration is merged entry by entry;
- for the override of automatic subscription creation, and for shadow topics, the GLOBAL document is ignored;
- entry filters are the brokers', unless their configuration lets others override them;
- ``schema_validation_enforced`` is always set in a namespace, so that the brokers' value never counts.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from google.protobuf.message import Message

from topicpolicies.masks import format_path
from topicpolicies.v1.policies_pb2 import DispatchRate, TopicPolicies

from .documents import FIELDS, LISTS, MAPS
from .facts import BrokerFacts


class Source(enum.IntEnum):
    """The level that a value comes from. The numbers are those of ``topicpolicies.v1.PolicySource``."""

    TOPIC_LOCAL = 1
    TOPIC_GLOBAL = 2
    NAMESPACE = 3
    BROKER = 4


class Resolved(NamedTuple):
    """Resolved policies, with the level that each value comes from."""

    policies: TopicPolicies
    sources: dict[str, Source]
    """The level of each value, by path: a field, an entry of a map, or a leaf of the offload policies."""


_Levels: TypeAlias = Sequence[tuple[Source, TopicPolicies]]
_OFFLOAD: Final = "offload_policies"

_SUBSCRIPTIONS: Final = "subscription_policies"
_OFFLOAD_DEFAULTS: Mapping[str, int | str] = {
    "offloaders_directory": "./offloaders",
    "managed_ledger_offload_max_threads": 2,
    "managed_ledger_offload_read_threads": 2,
    "managed_ledger_offload_prefetch_rounds": 1,
    "s3_managed_ledger_offload_max_block_size_in_bytes": 64 * 1024 * 1024,
    "s3_managed_ledger_offload_read_buffer_size_in_bytes": 1024 * 1024,
    "s3_managed_ledger_offload_role_session_name": "pulsar-s3-offload",
    "gcs_managed_ledger_offload_max_block_size_in_bytes": 128 * 1024 * 1024,
    "gcs_managed_ledger_offload_read_buffer_size_in_bytes": 1024 * 1024,
}
"""The values that brokers give to leaves that no level sets, if any level has offload policies (``OffloadPoliciesImpl``)."""
_EXTRA = "managed_ledger_extra_configurations"
_LOCAL_ONLY = frozenset({"auto_subscription_creation_override", "shadow_topics"})
_COUNTED = frozenset(
    {
        "max_subscriptions_per_topic",
        "max_unacked_messages_on_consumer",
        "max_unacked_messages_on_subscription",
        "max_producer_per_topic",
        "max_consumer_per_topic",
        "max_consumers_per_subscription",
        "max_message_size",
        "message_ttl_in_seconds",
        "subscription_expiration_time_in_minutes",
    }
)
"""Numbers that count as unset if they are negative."""
_DISPATCH_RATES = frozenset({"dispatch_rate", "subscription_dispatch_rate", "replicator_dispatch_rate"})


def effective(local: TopicPolicies | None, global_: TopicPolicies | None, namespace: TopicPolicies, broker: BrokerFacts) -> Resolved:
    """Returns the policies that brokers enforce with a topic's LOCAL and GLOBAL document; None: there is none."""
    levels: _Levels = (
        (Source.TOPIC_LOCAL, local or TopicPolicies()),
        (Source.TOPIC_GLOBAL, global_ or TopicPolicies()),
        (Source.NAMESPACE, namespace),
        (Source.BROKER, broker.policies),
    )
    result = Resolved(TopicPolicies(), {})
    for name in FIELDS:
        considered = [level for level in levels if not (name in _LOCAL_ONLY and level[0] is Source.TOPIC_GLOBAL)]
        if name == _OFFLOAD:
            _merge_offload(result, considered)
        elif name in MAPS:
            _take_entries(result, name, considered[:2] if name == _SUBSCRIPTIONS else considered)
        elif name == "entry_filters" and not broker.filters_overridable:
            _take(result, name, levels[3:])
        else:
            _take(result, name, considered)
    return result


def says_something(name: str, policies: TopicPolicies) -> bool:
    """Returns whether brokers regard a field of a document as set. The field must be present."""
    if name in _COUNTED:
        return bool(getattr(policies, name) >= 0)
    if name in _DISPATCH_RATES:
        return limits_dispatch(getattr(policies, name))
    if name == "publish_rate":
        rate = policies.publish_rate
        return rate.publish_throttling_rate_in_msg > 0 or rate.publish_throttling_rate_in_byte > 0
    if name == "subscribe_rate":
        return policies.subscribe_rate.subscribe_throttling_rate_per_consumer > 0 and policies.subscribe_rate.rate_period_in_second > 0
    return True


def limits_dispatch(rate: DispatchRate) -> bool:
    """Returns whether a rate limits anything (``DispatchRateImpl.normalize``)."""
    return rate.dispatch_throttling_rate_in_msg > 0 or rate.dispatch_throttling_rate_in_byte > 0


def _has(message: Message, name: str) -> bool:
    return message.HasField(name)


def _take(result: Resolved, name: str, levels: _Levels) -> None:
    """Takes a field from the first level that sets it; the brokers' values always count."""
    for source, policies in levels:
        present = bool(getattr(policies, name)) if name in LISTS else _has(policies, name)
        if present and (source is Source.BROKER or says_something(name, policies)):
            _put(result.policies, name, getattr(policies, name))
            result.sources[name] = source
            return


def _take_entries(result: Resolved, name: str, levels: _Levels) -> None:
    """Takes each entry of a map from the first level that has it."""
    for source, policies in levels:
        entries = getattr(policies, name)
        for key in sorted(entries):
            path = format_path((name, key))
            if path not in result.sources:
                getattr(result.policies, name)[key].CopyFrom(entries[key])
                result.sources[path] = source


def _merge_offload(result: Resolved, levels: _Levels) -> None:
    """Takes each leaf from the first level that has it. Of the topic's documents, only the first with offload policies is used."""
    own = [level for level in levels if level[0] in (Source.TOPIC_LOCAL, Source.TOPIC_GLOBAL) and level[1].HasField(_OFFLOAD)]
    for source, policies in [*own[:1], *(level for level in levels if level[0] in (Source.NAMESPACE, Source.BROKER))]:
        if not policies.HasField(_OFFLOAD):
            continue
        merged = result.policies.offload_policies
        for field, value in policies.offload_policies.ListFields():
            if field.name == _EXTRA:
                for key in sorted(value):
                    path = format_path((_OFFLOAD, _EXTRA, key))
                    if path not in result.sources:
                        merged.managed_ledger_extra_configurations[key] = value[key]
                        result.sources[path] = source
            elif not _has(merged, field.name):
                setattr(merged, field.name, value)
                result.sources[format_path((_OFFLOAD, field.name))] = source
    if result.policies.HasField(_OFFLOAD):
        for name, default in _OFFLOAD_DEFAULTS.items():
            if not _has(result.policies.offload_policies, name):
                setattr(result.policies.offload_policies, name, default)
                result.sources[format_path((_OFFLOAD, name))] = Source.BROKER


def _put(policies: TopicPolicies, name: str, value: Any) -> None:
    if name in LISTS:
        getattr(policies, name).extend(value)
    elif FIELDS[name].message_type is not None:
        getattr(policies, name).CopyFrom(value)
    else:
        setattr(policies, name, value)
