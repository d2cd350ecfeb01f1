"""Updates of every kind, each with its effect on a document, which is described without the service's code."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from tests.validators.documents import Document, Edit, Value
from tests.validators.records import Key, Update
from topicpolicies.v1 import policies_pb2, service_pb2
from topicpolicies.v1.policies_pb2 import SubscriptionType, TopicPolicies
from topicpolicies.v1.service_pb2 import ListOperation

_SCALARS = ("max_producer_per_topic", "max_consumer_per_topic", "message_ttl_in_seconds", "compaction_threshold")
_DELAYED = ("delayed_delivery_tick_time_millis", "delayed_delivery_max_delay_in_millis")
_SUBSCRIPTIONS = ("billing", "audit")
_TYPES = "subscription_types_enabled"
_RATE: Mapping[str, Value] = {
    "dispatch_throttling_rate_in_byte": -1,
    "dispatch_throttling_rate_in_msg": -1,
    "rate_period_in_second": 1,
    "relative_to_publish_rate": False,
}
"""The defaults of Pulsar's own constructor of a dispatch rate."""
_LIMITS = ("dispatch_throttling_rate_in_byte", "dispatch_throttling_rate_in_msg")
"""A subscription's rate must have one of them."""
_RATE_LEAVES = ("dispatch_throttling_rate_in_byte", "dispatch_throttling_rate_in_msg", "rate_period_in_second")


class Draft(NamedTuple):
    """An update without its policy key."""

    edit: Edit
    mask: tuple[str, ...] = ()
    """Empty: the settings that ``policies`` has."""
    policies: TopicPolicies | None = None
    operations: Mapping[str, ListOperation.ValueType] = {}


@dataclass(frozen=True, slots=True)
class Wish:
    """An update or a deletion with its request id and its conditions, which may be sent several times."""

    key: Key
    draft: Draft
    request_id: str
    demanded: str = ""
    must_be_absent: bool = False
    skip_if_absent: bool = False
    validate_only: bool = False

    def update(self) -> service_pb2.UpdatePolicyRequest:
        """Returns it as an UpdatePolicy request."""
        return service_pb2.UpdatePolicyRequest(
            topic=self.key.topic,
            scope=policies_pb2.Scope.ValueType(self.key.scope),
            policies=self.draft.policies,
            update_mask=FieldMask(paths=self.draft.mask) if self.draft.mask else None,
            precondition=self._precondition(),
            skip_if_absent=self.skip_if_absent,
            validate_only=self.validate_only,
            request_id=self.request_id,
            list_operations=self.draft.operations,
        )

    def delete(self) -> service_pb2.DeletePolicyRequest:
        """Returns it as a DeletePolicy request."""
        return service_pb2.DeletePolicyRequest(
            topic=self.key.topic,
            scope=policies_pb2.Scope.ValueType(self.key.scope),
            precondition=self._precondition(),
            validate_only=self.validate_only,
            request_id=self.request_id,
        )

    def change(self) -> service_pb2.PolicyChangeRequest:
        """Returns it as a part of a batch."""
        if self.draft.edit.delete:
            return service_pb2.PolicyChangeRequest(delete=self.delete())
        return service_pb2.PolicyChangeRequest(update=self.update())

    def _precondition(self) -> service_pb2.Precondition | None:
        if self.must_be_absent:
            return service_pb2.Precondition(exists=False)
        return service_pb2.Precondition(version=self.demanded) if self.demanded else None

    def record(self, client: str, sidecar: str, now: float) -> Update:
        """Returns the record of an attempt that has no answer yet."""
        return Update(
            client=client,
            sidecar=sidecar,
            invoked=now,
            key=self.key,
            request_id=self.request_id,
            edit=self.draft.edit,
            demanded=self.demanded,
            must_be_absent=self.must_be_absent,
            skip_if_absent=self.skip_if_absent,
            validate_only=self.validate_only,
        )


def flat(policies: Message) -> Document:
    """Returns a document as the validators know it."""
    document: dict[str, Value] = {}
    _flatten(policies, "", document)
    return document


def _flatten(message: Message, prefix: str, into: dict[str, Value]) -> None:
    for field, value in message.ListFields():
        path = prefix + field.name
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for name in sorted(value):
                _flatten(value[name], f"{path}.{name}.", into)
        elif field.is_repeated:
            into[path] = tuple(value)
        elif field.message_type is not None:
            _flatten(value, f"{path}.", into)
        else:
            into[path] = value


def message_of(values: Mapping[str, Value]) -> TopicPolicies:
    """Returns the message with these leaves set."""
    policies = TopicPolicies()
    for path, value in values.items():
        at: Message = policies
        *objects, leaf = path.split(".")
        names = iter(objects)
        for name in names:
            field = at.DESCRIPTOR.fields_by_name[name]
            at = getattr(at, name)
            if field.is_repeated:
                at = at[next(names)]  # type: ignore[index]
        if isinstance(value, tuple):
            getattr(at, leaf).extend(value)
        else:
            setattr(at, leaf, value)
    return policies


class Traffic:
    """Makes drafts, each with values that no other draft has."""

    def __init__(self, chance: random.Random, deletes: float, number: int = 0, of: int = 1) -> None:
        """``deletes``: the rate of deletions. ``number``, ``of``: which of how many that share the values between them."""
        self._chance = chance
        self._deletes = deletes
        self._number = number
        self._step = of
        self._kinds: tuple[Callable[[], Draft], ...] = (
            self.scalar,
            self.scalar,
            self._clear,
            self._leaf,
            self._object,
            self._leaf_of_retention,
            self._entry,
            self._leaf_of_entry,
            self._remove_entry,
            self._group,
            self._list,
            self._list,
            self._several,
            self._implied,
            self._whole,
        )

    def draft(self) -> Draft:
        """Returns any update or deletion."""
        if self._chance.random() < self._deletes:
            return Draft(Edit(delete=True))
        return self._chance.choice(self._kinds)()

    def setting(self) -> Draft:
        """Returns a change of one setting to a new value, or a deletion, as an administrator requests it from a broker."""
        if self._chance.random() < self._deletes:
            return Draft(Edit(delete=True))
        return self._chance.choice((self.scalar, self._object, self._entry))()

    def restatement(self, path: str, document: Document | None) -> Draft:
        """Returns a change of one setting to its value in a document."""
        if document is None or path not in document:
            return Draft(Edit(clears=(path,)), (path,), TopicPolicies())
        return _sets({path: document[path]})

    def _new(self) -> int:
        self._number += self._step
        return self._number

    def scalar(self) -> Draft:
        """Returns a change of one plain setting to a new value."""
        return _sets({self._chance.choice(_SCALARS): self._new()})

    def _clear(self) -> Draft:
        path = self._chance.choice((*_SCALARS, "dispatch_rate", "retention_policies", _TYPES))
        return Draft(Edit(clears=(path,)), (path,), TopicPolicies())

    def _leaf(self) -> Draft:
        path = f"dispatch_rate.{self._chance.choice(_RATE_LEAVES)}"
        value = self._new()
        return Draft(
            Edit(sets={path: value}, defaults={f"dispatch_rate.{leaf}": default for leaf, default in _RATE.items()}),
            (path,),
            message_of({path: value}),
        )

    def _object(self) -> Draft:
        number = self._new()
        values: dict[str, Value] = {
            "retention_policies.retention_size_in_mb": number,
            "retention_policies.retention_time_in_minutes": number,
        }
        return Draft(Edit(sets=values), ("retention_policies",), message_of(values))

    def _leaf_of_retention(self) -> Draft:
        path = f"retention_policies.{self._chance.choice(('retention_size_in_mb', 'retention_time_in_minutes'))}"
        value = self._new()
        return Draft(Edit(sets={path: value}, needs="retention_policies"), (path,), message_of({path: value}))

    def _entry(self) -> Draft:
        name = self._chance.choice(_SUBSCRIPTIONS)
        at = f"subscription_policies.{name}"
        values = {f"{at}.dispatch_rate.{leaf}": value for leaf, value in _RATE.items()}
        values[f"{at}.dispatch_rate.dispatch_throttling_rate_in_msg"] = self._new()
        return Draft(Edit(sets=values), (f"subscription_policies.`{name}`",), message_of(values))

    def _leaf_of_entry(self) -> Draft:
        name, leaf = self._chance.choice(_SUBSCRIPTIONS), self._chance.choice(_LIMITS)
        at = f"subscription_policies.{name}.dispatch_rate"
        value = self._new()
        return Draft(
            Edit(sets={f"{at}.{leaf}": value}, defaults={f"{at}.{each}": default for each, default in _RATE.items()}),
            (f"subscription_policies.`{name}`.dispatch_rate.{leaf}",),
            message_of({f"{at}.{leaf}": value}),
        )

    def _remove_entry(self) -> Draft:
        name = self._chance.choice(_SUBSCRIPTIONS)
        return Draft(Edit(clears=(f"subscription_policies.{name}",)), (f"subscription_policies.`{name}`",), TopicPolicies())

    def _group(self) -> Draft:
        path = self._chance.choice(_DELAYED)
        return _sets({path: self._new()})

    def _list(self) -> Draft:
        elements = tuple(self._chance.sample(sorted(SubscriptionType.values())[1:], self._chance.randint(1, 2)))
        policies = message_of({_TYPES: elements})
        operation, edit = self._chance.choice(
            (
                (ListOperation.LIST_OPERATION_UNION, Edit(adds={_TYPES: elements})),
                (ListOperation.LIST_OPERATION_UNION, Edit(adds={_TYPES: elements})),
                (ListOperation.LIST_OPERATION_SUBTRACT, Edit(removes={_TYPES: elements})),
                (ListOperation.LIST_OPERATION_REPLACE, Edit(sets={_TYPES: elements})),
            )
        )
        return Draft(edit, (_TYPES,), policies, {_TYPES: operation})

    def _several(self) -> Draft:
        values: dict[str, Value] = {path: self._new() for path in self._chance.sample(_SCALARS, 2)}
        cleared = next(path for path in _SCALARS if path not in values)
        return Draft(Edit(clears=(cleared,), sets=values), (*values, cleared), message_of(values))

    def _implied(self) -> Draft:
        values: dict[str, Value] = {path: self._new() for path in self._chance.sample(_SCALARS, 2)}
        return Draft(Edit(sets=values), (), message_of(values))

    def _whole(self) -> Draft:
        values: dict[str, Value] = {path: self._new() for path in self._chance.sample(_SCALARS, self._chance.randint(0, 2))}
        return Draft(Edit(whole=True, sets=values), ("*",), message_of(values))


def _sets(values: Mapping[str, Value]) -> Draft:
    return Draft(Edit(sets=values), tuple(values), message_of(values))
