"""Where the admin API of Pulsar 4.2.4 has each setting of a topic (``PersistentTopics``), and how its JSON becomes a document and back.

A *setting* is what one call changes (``core/policies/documents``): a field, an entry of a map, or the three fields of delayed delivery.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from topicpolicies import TopicPolicies
from topicpolicies.masks import format_path
from topicpolicies.values import assign, enum_name, map_value

from ..core.policies.documents import Setting
from ..declared.values import find, structured
from .fields import FIELDS


class Endpoint(NamedTuple):
    """The calls of one setting, or of all entries of a map."""

    path: str
    """Below the topic; ``{}`` stands for the key of the map's entry."""
    read_at: str = ""
    """Where it is read, if elsewhere."""
    method: str = "POST"
    """How it is set; DELETE removes it."""
    local_only: bool = False
    parameter: str = ""
    """The parameter that has the value, which is not in the body then."""
    key: str = ""
    """The parameter that has the key of the map's entry."""
    leaf: str = ""
    """The only field of the map's entry, which the calls are about."""
    members: Mapping[str, str] = {}
    """The names of its fields in the JSON, if there are several fields."""
    unset: object = None
    """What is read if it is not set, besides nothing: such a value can't be told from unset."""
    switch: bool = False
    """Whether true is set without a body, and removing it sets false."""
    removable: bool = True
    """Whether it can be removed; if not, ``unset`` is set."""


ENDPOINTS = {name: Endpoint(re.sub("-(.)", lambda found: found[1].upper(), row.verb)) for name, row in FIELDS.items() if row.verb}
del ENDPOINTS["delayed_delivery_enabled"]
ENDPOINTS |= {
    "back_log_quota_map": Endpoint("backlogQuota", "backlogQuotaMap", key="backlogQuotaType"),
    "deduplication_enabled": Endpoint("deduplicationEnabled"),
    "delayed_delivery": Endpoint(
        "delayedDelivery",
        members={
            "delayed_delivery_tick_time_millis": "tickTime",
            "delayed_delivery_enabled": "active",
            "delayed_delivery_max_delay_in_millis": "maxDeliveryDelayInMillis",
        },
    ),
    "dispatcher_pause_on_ack_state_persistent_enabled": Endpoint("dispatcherPauseOnAckStatePersistent", unset=False, switch=True),
    "entry_filters": Endpoint("entryFilters"),
    "max_unacked_messages_on_consumer": Endpoint("maxUnackedMessagesOnConsumer"),
    "max_unacked_messages_on_subscription": Endpoint("maxUnackedMessagesOnSubscription"),
    "message_ttl_in_seconds": Endpoint("messageTTL", parameter="messageTTL"),
    "replication_clusters": Endpoint("replication"),
    "schema_compatibility_strategy": Endpoint("schemaCompatibilityStrategy", method="PUT", local_only=True, unset="UNDEFINED"),
    "schema_validation_enforced": Endpoint("schemaValidationEnforced", local_only=True, unset=False, removable=False),
    "shadow_topics": Endpoint("shadowTopics", method="PUT", local_only=True),
    "subscription_expiration_time_in_minutes": Endpoint("subscriptionExpirationTime", parameter="subscriptionExpirationTime"),
    "subscription_policies": Endpoint("{}/dispatchRate", leaf="dispatch_rate"),
}
"""By field, or by group of fields (``documents.GROUPS``). Most paths are the names of pulsar-admin's commands."""
_NOTHING: Sequence[object] = (None, {}, [])
"""How JSON says that a setting is not set."""
_COMPUTED = frozenset({"limit", "s3Driver", "gcsDriver", "fileSystemDriver"})
"""Members of the answers that repeat what other members say."""
_LOWER, _TITLE = frozenset({"BacklogQuotaPolicy", "InactiveTopicDeleteMode"}), frozenset({"SubscriptionType"})
"""The enums whose names Pulsar does not write in upper case."""


class Request(NamedTuple):
    """A request that changes a setting."""

    method: str
    path: tuple[str, ...]
    """Below the topic."""
    query: Mapping[str, str]
    body: Any = None


def path_of(path: str, key: str = "") -> tuple[str, ...]:
    """Returns the segments of an endpoint's path. ``key``: that of the map's entry."""
    return tuple(key if segment == "{}" else segment for segment in path.split("/"))


def read(policies: TopicPolicies, name: str, key: str, answer: Any) -> None:
    """Puts the JSON that an endpoint answers into a document; nothing, if it says that the setting is not set.

    Raises:
        ValueProblem: the answer has something that this version does not know.
    """
    endpoint = ENDPOINTS[name]
    if answer in _NOTHING or (endpoint.unset is not None and answer == endpoint.unset):
        return
    values = {field: answer.get(member) for field, member in endpoint.members.items()} or {format_path(_path(name, key)): answer}
    for path, value in values.items():
        target = find(path)
        assign(policies, target, structured(target.value, _known(value), target.path))


def request(setting: Setting, policies: TopicPolicies) -> Request:
    """Returns the request that makes a setting what it is in a document, which removes it if it is not there."""
    name, _, key = setting.partition("/")
    endpoint = ENDPOINTS[name]
    value = json_of(name, key, policies)
    path, query = path_of(endpoint.path, key), {endpoint.key: key} if endpoint.key else {}
    if value in _NOTHING and not endpoint.removable:
        value = endpoint.unset
    if value in _NOTHING or (endpoint.switch and not value):
        return Request("DELETE", path, query)
    if endpoint.parameter:
        return Request(endpoint.method, path, {**query, endpoint.parameter: str(value)})
    return Request(endpoint.method, path, query, None if endpoint.switch else value)


def _path(name: str, key: str) -> tuple[str, ...]:
    leaf = ENDPOINTS[name].leaf
    return (name, *([key] if key else []), *([leaf] if leaf else []))


def _known(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _known(each) for name, each in value.items() if name not in _COMPUTED}


def json_of(name: str, key: str, policies: TopicPolicies) -> Any:
    """Returns the JSON of a setting, or, without a key, of all entries of a map; nothing (None, or empty): it is not set."""
    endpoint = ENDPOINTS[name]
    if endpoint.members:
        made = {member: _value(policies, field) for field, member in endpoint.members.items()}
        return made if any(value is not None for value in made.values()) else None
    if endpoint.leaf:
        entry = getattr(policies, name).get(key)
        return None if entry is None else _value(entry, endpoint.leaf)
    value = _value(policies, name)
    return value.get(key) if key else value


def _value(message: Message, name: str) -> Any:
    """Returns the JSON of a field. Leaves that are not set are null, in place of which Pulsar would put defaults of its own."""
    field = cast("Descriptor", message.DESCRIPTOR).fields_by_name[name]
    value = getattr(message, name)
    if map_value(field) is not None:
        return {key: _members(each) if isinstance(each, Message) else each for key, each in value.items()}
    if field.is_repeated:
        return [_scalar(field, each) for each in value]
    if not message.HasField(name):
        return None
    return _members(value) if isinstance(value, Message) else _scalar(field, value)


def _members(message: Message) -> dict[str, Any]:
    return {field.json_name: _value(message, field.name) for field in message.DESCRIPTOR.fields}


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    """Returns a single value with Pulsar's own names of enums."""
    if field.enum_type is None:
        return value
    name = enum_name(field.enum_type, value)
    return name.lower() if field.enum_type.name in _LOWER else name.title() if field.enum_type.name in _TITLE else name
