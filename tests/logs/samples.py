"""Events to append."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from google.protobuf.message import Message

from topicpolicies.v1.policies_pb2 import RetentionPolicies, TopicPolicies
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Document, split
from topicpolicies_server.core.policies.events import ABSENT, Action, Event, ListChange, Remembered, Stamp, StampKind
from topicpolicies_server.logs.avro import Codec


class Unreadable(ValueError):
    """A message is not an event, or one that no broker can apply."""


def a_key(namespace: str, topic: int | str = 0, scope: Scope = Scope.LOCAL) -> PolicyKey:
    return PolicyKey(f"persistent://{namespace}/topic-{topic}", scope)


def a_document(value: int = 1) -> Document:
    return split(
        TopicPolicies(
            max_producer_per_topic=value,
            retention_policies=RetentionPolicies(retention_time_in_minutes=value, retention_size_in_mb=value),
        )
    )


def an_update(key: PolicyKey, value: int = 1, *, event_id: str = "") -> Event:
    """Returns an update by a sidecar, as small as updates usually are."""
    stamp = Stamp(
        event_id=event_id or str(uuid.uuid4()), kind=StampKind.UPDATE, request_id=str(uuid.uuid4()), mask=("max_producer_per_topic",)
    )
    return Event(key, Action.UPDATE, a_document(value), stamp)


def a_tombstone(key: PolicyKey, *, event_id: str = "") -> Event:
    return Event(key, Action.DELETE, None, Stamp(event_id=event_id or str(uuid.uuid4()), kind=StampKind.TOMBSTONE))


def event_of(codec: Codec, key: str, payload: bytes | None, properties: Mapping[str, str]) -> Event:
    """Returns the event of a message.

    Raises:
        Unreadable: the message can't be read.
    """
    event, problem = codec.read(key, payload, properties)
    if event is None:
        raise Unreadable(problem)
    return event


def documents() -> list[Document]:
    """Returns documents of every kind: without settings, with one, with every field set, and with unusual names."""
    awkward = TopicPolicies()
    for subscription in ("plain", "with/slash", "with `backtick`", "Größe", "\U0001f680", "a,b;c%d"):
        _fill(awkward.subscription_policies[subscription])
    full = TopicPolicies()
    _fill(full)
    return [{}, a_document(), split(TopicPolicies(deduplication_enabled=False)), split(full), split(awkward)]


TRACE_PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
"""A well-formed ``traceparent``."""


def a_large_document(size: int) -> Document:
    """Returns a document of about ``size`` bytes."""
    policies = TopicPolicies()
    for n in range(size // 250):
        _fill(policies.subscription_policies[f"{n:06}" + "x" * 200])
    return split(policies)


def stamps() -> list[Stamp]:
    """Returns stamps of every kind, with each part once empty and once full."""
    operand = split(TopicPolicies(shadow_topics=["persistent://a/b/c", "persistent://a/b/d"]))["shadow_topics"]
    return [
        *(Stamp(event_id=f"minimal-{kind.value}", kind=kind) for kind in StampKind),
        Stamp(
            event_id="full",
            kind=StampKind.UPDATE,
            request_id="request",
            digest="0123456789abcdef",
            actor="an actor, with commas; and 100 % more",
            mask=("retention_policies", "subscription_policies.`a,b;c%d`.dispatch_rate"),
            base="1a",
            etag=ABSENT,
            skip_if_absent=True,
            reads={"retention_policies": "", "subscription_policies/a,b;c%d": "0123456789abcdef"},
            operands={"shadow_topics": (ListChange.UNION, operand)},
            remembered=tuple(Remembered(f"request-{n}", "digest", f"1{n:x}", "") for n in range(16)),
            trace_parent=TRACE_PARENT,
            trace_state="congo=t61rcWkgMzE,rojo=00f067aa0ba902b7",
        ),
        Stamp(event_id="restates", kind=StampKind.REPAIR, head_version="3abc"),
    ]


def _fill(message: Message) -> None:
    """Sets every field to a value that is neither zero nor Pulsar's default."""
    for descriptor in message.DESCRIPTOR.fields:
        entry = descriptor.message_type if descriptor.message_type and descriptor.message_type.GetOptions().map_entry else None
        value = getattr(message, descriptor.name)
        if entry is not None:
            keys = ("destination_storage", "message_age") if descriptor.name == "back_log_quota_map" else ("one", "two")
            for key in keys:
                if entry.fields_by_name["value"].message_type:
                    _fill(value[key])
                else:
                    value[key] = "seven"
        elif descriptor.is_repeated:
            value.extend([2, 1] if descriptor.enum_type else ["b", "a"])
        elif descriptor.message_type:
            value.SetInParent()
            _fill(value)
        elif descriptor.enum_type:
            setattr(message, descriptor.name, 1)
        else:
            samples = {descriptor.CPPTYPE_STRING: "seven", descriptor.CPPTYPE_BOOL: True, descriptor.CPPTYPE_DOUBLE: 0.5}
            setattr(message, descriptor.name, samples.get(descriptor.cpp_type, 7))
