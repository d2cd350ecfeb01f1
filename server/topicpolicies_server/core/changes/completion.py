"""Checks the values and objects of a change, and completes objects with the leaves that are left out.

Nested objects are complete in Pulsar: their Java fields are primitive, so an object has a value for each of its leaves. A change that
touches an object therefore completes it: leaves that are left out get the values of Pulsar's own constructors. Where a leaf has no default
that makes sense, half an object is refused (``HALF_OBJECT``). ``COMPLETIONS`` is the table; the comments in ``policies.proto`` document it
for callers, and a test compares the two.

Values without a meaning are dropped:

- an enum that is set to UNSPECIFIED is unset (in a list, UNSPECIFIED is refused);
- a subscription's entry without any policy is removed, as in the broker (``SubscriptionPolicies.checkEmpty``);
- offload policies without any leaf are removed: the broker merges them leaf by leaf (``OffloadPoliciesImpl.mergeConfiguration``);
- an object whose leaves have all been cleared by name is removed, and not filled with defaults that the caller did not ask for.

An element that occurs in a list more than once is kept at its first place only: the broker reads these lists into sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from topicpolicies.masks import Path, format_path
from topicpolicies.v1 import policies_pb2 as pb

from ..errors import Violation
from ..reasons import ViolationReason
from .fields import Form, blamed, fields
from .masks import Mask


class Completion(NamedTuple):
    """How the objects of a type are completed."""

    defaults: Mapping[str, Any]
    """The leaves that may be left out, with their default values."""
    required: tuple[str, ...] = ()
    """The leaves that must be given."""
    optional: bool = False
    """Whether every leaf may stay unset; an object without any leaf is removed."""
    objects: tuple[str, ...] = ()
    """The leaves that are objects themselves."""


COMPLETIONS: Mapping[object, Completion] = {
    pb.AutoSubscriptionCreationOverride.DESCRIPTOR: Completion({"allow_auto_subscription_creation": False}),
    pb.BacklogQuota.DESCRIPTOR: Completion({"limit_size": -1, "limit_time": -1}, required=("policy",)),
    pb.DispatchRate.DESCRIPTOR: Completion(
        {
            "dispatch_throttling_rate_in_byte": -1,
            "dispatch_throttling_rate_in_msg": -1,
            "rate_period_in_second": 1,
            "relative_to_publish_rate": False,
        }
    ),
    pb.EntryFilters.DESCRIPTOR: Completion({}, required=("entry_filter_names",)),
    pb.InactiveTopicPolicies.DESCRIPTOR: Completion(
        {"delete_while_inactive": False}, required=("inactive_topic_delete_mode", "max_inactive_duration_seconds")
    ),
    pb.OffloadPolicies.DESCRIPTOR: Completion({}, optional=True),
    pb.PersistencePolicies.DESCRIPTOR: Completion(
        {"managed_ledger_max_mark_delete_rate": 0.0},
        required=("bookkeeper_ack_quorum", "bookkeeper_ensemble", "bookkeeper_write_quorum"),
    ),
    pb.PublishRate.DESCRIPTOR: Completion({"publish_throttling_rate_in_byte": -1, "publish_throttling_rate_in_msg": -1}),
    pb.RetentionPolicies.DESCRIPTOR: Completion({}, required=("retention_size_in_mb", "retention_time_in_minutes")),
    pb.SubscribeRate.DESCRIPTOR: Completion({"rate_period_in_second": 30, "subscribe_throttling_rate_per_consumer": -1}),
    pb.SubscriptionPolicies.DESCRIPTOR: Completion({}, optional=True, objects=("dispatch_rate",)),
}
"""How each type of object in a document is completed, by the type's descriptor."""


def check(message: Message, at: Path = ()) -> list[Violation]:
    """Checks each value of a message that a caller sent, and drops from it, in place, the values without a meaning.

    Refused are enum numbers that are not defined (``UNKNOWN_ENUM_VALUE``), UNSPECIFIED in a list (``UNSPECIFIED_ELEMENT``), map keys that
    are not allowed (``INVALID_MAP_KEY``).
    """
    violations: list[Violation] = []
    forms = fields(message.DESCRIPTOR)
    for field, value in message.ListFields():
        known, path = forms[field.name], (*at, field.name)
        if known.form is Form.OBJECT:
            violations += check(value, path)
            if _says_nothing(value):
                message.ClearField(field.name)
        elif known.form is Form.MAP:
            for key in list(value):
                if problem := known.key_problem(key):
                    violations.append(Violation(blamed((*path, key)), ViolationReason.INVALID_MAP_KEY, f"{problem}."))
                if known.object is not None:
                    violations += check(value[key], (*path, key))
                    if _says_nothing(value[key]):
                        del value[key]
        elif known.form is Form.LIST:
            value[:] = list(dict.fromkeys(value))
            if field.enum_type is not None:
                violations += _check_elements(field, value, path)
        elif field.enum_type is not None:
            if value == 0:
                message.ClearField(field.name)
            elif value not in field.enum_type.values_by_number:
                violations.append(_unknown_number(field, value, path))
    return violations


def complete(policies: Message, mask: Mask) -> list[Violation]:
    """Completes the objects that a mask touches in a document, in place. Returns a violation for each that can't be (``HALF_OBJECT``)."""
    violations: list[Violation] = []
    touched: dict[str, list[Path]] = {}
    for path in mask:
        if path:
            touched.setdefault(path[0], []).append(path[1:])
        else:
            touched = {name: [()] for name in fields(policies.DESCRIPTOR)}
    for name, paths in touched.items():
        field = fields(policies.DESCRIPTOR)[name]
        if field.object is None:
            continue
        value = getattr(policies, name)
        if field.form is Form.OBJECT:
            if policies.HasField(name) and not _complete(value, paths, (name,), violations):
                policies.ClearField(name)
            continue
        for key in list(value):
            rests = [path[1:] for path in paths if not path or path[0] == key]
            if rests and not _complete(value[key], rests, (name, key), violations):
                del value[key]
    return violations


def _complete(message: Message, paths: Sequence[Path], at: Path, violations: list[Violation]) -> bool:
    """Completes an object in place. Returns whether it stays; False: it has no leaves, and must be removed.

    ``paths``: the named leaves, as paths below the object; the empty path: the whole object is named. ``at``: the object's path in the
    document.
    """
    descriptor = message.DESCRIPTOR
    completion = COMPLETIONS[descriptor]
    whole = () in paths
    for name in completion.objects:
        rests = [()] if whole else [path[1:] for path in paths if path[0] == name]
        if rests and message.HasField(name) and not _complete(getattr(message, name), rests, (*at, name), violations):
            message.ClearField(name)
    if completion.optional:
        return not _says_nothing(message)
    if not (whole or message.ListFields()):
        return False
    for name, default in completion.defaults.items():
        if not message.HasField(name):
            setattr(message, name, default)
    missing = [name for name in completion.required if not message.HasField(name)]
    if missing:
        problem = f'"{format_path(at)}" would be an incomplete object: give {" and ".join(missing)} too, or clear the whole object.'
        violations.append(Violation(blamed(at), ViolationReason.HALF_OBJECT, problem))
    return True


def _says_nothing(message: Message) -> bool:
    return COMPLETIONS[message.DESCRIPTOR].optional and not message.ListFields() and not message.ByteSize()


def _check_elements(field: FieldDescriptor, numbers: Sequence[int], at: Path) -> list[Violation]:
    assert field.enum_type is not None
    violations: list[Violation] = []
    if 0 in numbers:
        problem = f'"{field.name}" contains UNSPECIFIED, which names nothing: leave it out.'
        violations.append(Violation(blamed(at), ViolationReason.UNSPECIFIED_ELEMENT, problem))
    unknown = [number for number in numbers if number not in field.enum_type.values_by_number]
    if unknown:
        violations.append(_unknown_number(field, unknown[0], at))
    return violations


def _unknown_number(field: FieldDescriptor, number: int, at: Path) -> Violation:
    assert field.enum_type is not None
    problem = f'"{format_path(at)}" is {number}, which is not a {field.enum_type.name} that this server knows.'
    return Violation(blamed(at), ViolationReason.UNKNOWN_ENUM_VALUE, problem)
