"""Requests that are almost valid, made from a seed: valid ones with changed fields or bytes, and bytes that never were a request."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthListRequest
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

from topicpolicies.v1.history_pb2 import GetPolicyAsOfRequest, ListHistoryRequest, WatchHistoryRequest
from topicpolicies.v1.policies_pb2 import SCOPE_GLOBAL, SCOPE_LOCAL, TopicPolicies
from topicpolicies.v1.service_pb2 import (
    BatchUpdatePoliciesRequest,
    DeletePolicyRequest,
    GetEffectivePolicyRequest,
    GetPolicyRequest,
    GetServerInfoRequest,
    ListPoliciesRequest,
    PolicyChangeRequest,
    UpdatePolicyRequest,
    WatchPoliciesRequest,
)

CHECK, WATCH = "grpc.health.v1.Health/Check", "grpc.health.v1.Health/Watch"
LIST = "grpc.health.v1.Health/List"
REFLECTION = "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
NAMESPACES = [f"acme/fuzz-{number}" for number in range(4)]
_TEXTS = [
    "", " ", "\0", "\n", "a", "*", "/", "//", "a/b", "a/b/c/d", "persistent://", "persistent://a/b/c", "non-persistent://a/b/c", "topic://a/b/c",
    "persistent://acme/fuzz-0/x-partition-", "persistent://acme/fuzz-0/x-partition-0",
    "persistent://acme/fuzz-0/x-partition-٣", "__change_events",
    "persistent://acme/fuzz-0/__change_events", "é", "\u202e", "\ufeff", "\U0010ffff",
    "`", "a.b", "a..b", "subscription_policies.`", "%00", "%s",
    "../..", "0", "-1", "1e999", "NaN", "null", "{}", "[]", "x" * 300, "é" * 2_000, "x" * 100_000, str(uuid.UUID(int=0)), "0:0", "0" * 64,
]  # fmt: skip
_NUMBERS = [0, 1, 2, 3, 7, 100, 10_000, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1]
_PRINTABLE = [chr(code) for code in range(0x20, 0x7F)]
_METADATA = [
    "topicpolicies-original-principal",
    "authorization",
    "traceparent",
    "tracestate",
    "x",
]
_MOST_FIELDS = 4
_DEEPEST = 12


class Mutations:
    """Makes requests. The same seed and the same learned answers give the same requests."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._texts = [*_TEXTS, *NAMESPACES]
        """The texts of requests; texts of the server's answers are added, so that versions and tokens are almost valid, too."""
        self._make: dict[str, Callable[[], Message]] = {
            "UpdatePolicy": self._update,
            "DeletePolicy": self._delete,
            "GetPolicy": lambda: GetPolicyRequest(topic=self._topic(), scope=self.random.choice((SCOPE_LOCAL, SCOPE_GLOBAL))),
            "GetEffectivePolicy": lambda: GetEffectivePolicyRequest(topic=self._topic()),
            "GetServerInfo": GetServerInfoRequest,
            "ListPolicies": lambda: ListPoliciesRequest(namespace=self._namespace(), page_size=3),
            "ListHistory": lambda: ListHistoryRequest(namespace=self._namespace(), page_size=3),
            "GetPolicyAsOf": self._as_of,
            "WatchHistory": lambda: WatchHistoryRequest(namespaces=[self._namespace()]),
            "WatchPolicies": self._watch,
            "BatchUpdatePolicies": self._updates,
            CHECK: self._health,
            WATCH: self._health,
            LIST: HealthListRequest,
            REFLECTION: self._reflection,
        }

    @property
    def calls(self) -> Sequence[str]:
        """The methods for which requests can be made."""
        return list(self._make)

    def learn(self, message: Message, most: int = 400) -> None:
        """Adds the texts of an answer to those that requests are made of."""
        for field, value in message.ListFields():
            for each in _values(field, value):
                if isinstance(each, str):
                    self._texts.append(each)
                    if len(self._texts) > most:
                        del self._texts[self.random.randrange(len(_TEXTS), most)]
                elif isinstance(each, Message):
                    self.learn(each, most)

    def request(self, call: str) -> bytes:
        """Returns the bytes of a request for a method: one in eight is valid, and some are requests of another method."""
        chosen = self.random.random()
        message = self._make[call if chosen < 0.95 else self.random.choice(self.calls)]()
        if chosen < 0.125:
            return message.SerializeToString()
        if chosen < 0.65:
            return self.changed(message)
        return self.torn(message.SerializeToString() if chosen < 0.85 else self.changed(message))

    def metadata(self) -> list[tuple[str, str | bytes]]:
        """Returns metadata: none for three requests in four, otherwise keys that the server reads, and one that it does not know."""
        chance = self.random
        pairs: list[tuple[str, str | bytes]] = []
        if chance.random() < 0.75:
            return pairs
        for _ in range(chance.randint(1, 4)):
            if chance.random() < 0.3:
                pairs.append((f"{chance.choice(_METADATA)}-bin", chance.randbytes(chance.choice((0, 1, 100)))))
                continue
            text = "".join(chance.choices(_PRINTABLE, k=chance.choice((0, 1, 16, 300, 1_000)))).strip()
            pairs.append((chance.choice(_METADATA), chance.choice(("", "Bearer ", "Basic ", "00-")) + text))
        return pairs

    def seconds(self, usual: float) -> float:
        """Returns the timeout of a call: nine times in ten the usual one, otherwise a very short one."""
        return usual if self.random.random() < 0.9 else self.random.choice((0.001, 0.01, 0.05, 0.2))

    def changed(self, message: Message) -> bytes:
        """Returns the bytes of a message in which some fields have other values of their types."""
        for _ in range(self.random.randint(1, _MOST_FIELDS)):
            self._change(message, 0)
        return message.SerializeToString()

    def torn(self, raw: bytes) -> bytes:
        """Returns bytes of which some are changed, removed, repeated or replaced."""
        chance = self.random
        data = bytearray(raw)
        for _ in range(chance.randint(1, 4)):
            at, upto = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
            match chance.randrange(7):
                case 0 if data:
                    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                case 1:
                    del data[at:upto]
                case 2:
                    data[at:at] = data[at:upto]
                case 3:
                    data[at:at] = chance.randbytes(chance.randint(1, 16))
                case 4:
                    data[at:upto] = bytes(chance.choice((0x00, 0x0A, 0x80, 0xFF)) for _ in range(upto - at))
                case 5:
                    del data[at:]
                case _:
                    data = bytearray(chance.randbytes(chance.randint(0, 64)))
        return bytes(data)

    def _change(self, message: Message, depth: int) -> None:
        fields: Any = message.DESCRIPTOR.fields
        if not fields:
            return
        field: FieldDescriptor = self.random.choice(fields)
        if self.random.random() < 0.15:
            message.ClearField(field.name)
            return
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            self._change_map(message, field, depth)
        elif field.is_repeated:
            self._change_list(message, field, depth)
        elif field.message_type is not None:
            inner = getattr(message, field.name)
            inner.SetInParent()
            if depth < _DEEPEST:
                self._change(inner, depth + 1)
        else:
            _set(message, field, self._scalar(field))

    def _change_map(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        entries = getattr(message, field.name)
        assert field.message_type is not None, "the field of a map has the type of an entry"
        key_field, value_field = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        for _ in range(self.random.choice((1, 1, 1, 5))):
            try:
                if value_field.message_type is not None:
                    self._change(entries[self._scalar(key_field)], depth + 1)
                else:
                    entries[self._scalar(key_field)] = self._scalar(value_field)
            except (ValueError, TypeError):
                continue

    def _change_list(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        values = getattr(message, field.name)
        for _ in range(self.random.choice((1, 1, 2, 50))):
            if field.message_type is not None:
                added = values.add()
                if depth < _DEEPEST:
                    self._change(added, depth + 1)
            else:
                try:
                    values.append(self._scalar(field))
                except (ValueError, TypeError):
                    continue

    def _scalar(self, field: FieldDescriptor) -> Any:
        chance = self.random
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
                return chance.randbytes(chance.choice((0, 1, 16, 1_000)))
            case FieldDescriptor.CPPTYPE_STRING:
                return self._text()
            case FieldDescriptor.CPPTYPE_BOOL:
                return chance.random() < 0.5
            case FieldDescriptor.CPPTYPE_ENUM:
                return chance.choice((0, 1, 2, 3, 99, -1, 2**31 - 1))
            case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
                return chance.choice((0.0, -0.0, 1.5, -1.0, 1e300, float("inf"), float("-inf"), float("nan")))
            case _:
                return chance.choice(_NUMBERS) * chance.choice((1, 1, -1))

    def _text(self) -> str:
        text = self.random.choice(self._texts)
        if (
            text and len(text) < 1_000 and self.random.random() < 0.3
        ):  # the text with one character replaced, which makes a token almost valid
            at = self.random.randrange(len(text))
            text = text[:at] + self.random.choice("0aZ/.-_%~é\0") + text[at + 1 :]
        return text

    def _topic(self) -> str:
        return f"persistent://{self._namespace()}/t-{self.random.randrange(4)}"

    def _namespace(self) -> str:
        return self.random.choice(NAMESPACES)

    def _update(self) -> UpdatePolicyRequest:
        policies = TopicPolicies(max_producer_per_topic=self.random.randrange(100), message_ttl_in_seconds=60)
        policies.retention_policies.retention_time_in_minutes = 10
        policies.retention_policies.retention_size_in_mb = self.random.randrange(1_000)
        made = UpdatePolicyRequest(
            topic=self._topic(), policies=policies, request_id=str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        )
        made.validate_only = self.random.random() < 0.2
        return made

    def _delete(self) -> DeletePolicyRequest:
        return DeletePolicyRequest(topic=self._topic(), scope=SCOPE_LOCAL, include_previous=True)

    def _as_of(self) -> Message:
        if self.random.random() < 0.5:
            return GetPolicyAsOfRequest(topic=self._topic(), version=self._text())
        return GetPolicyAsOfRequest(topic=self._topic(), time=Timestamp(seconds=int(time.time())))

    def _updates(self) -> BatchUpdatePoliciesRequest:
        changes = []
        for _ in range(self.random.randint(1, 5)):
            change = PolicyChangeRequest()
            if self.random.random() < 0.8:
                change.update.CopyFrom(self._update())
            else:
                change.delete.CopyFrom(self._delete())
            changes.append(change)
        return BatchUpdatePoliciesRequest(changes=changes)

    def _health(self) -> HealthCheckRequest:
        return HealthCheckRequest(
            service=self.random.choice(("", "liveness", "readiness", "topicpolicies.v1.TopicPoliciesService", self._namespace()))
        )

    def _reflection(self) -> ServerReflectionRequest:
        asked = self.random.choice(("list_services", "file_by_filename", "file_containing_symbol"))
        named = self.random.choice(("topicpolicies.v1.TopicPolicies", "topicpolicies/v1/service.proto", "grpc.health.v1.Health"))
        return ServerReflectionRequest(**{asked: named})

    def _watch(self) -> WatchPoliciesRequest:
        return WatchPoliciesRequest(namespaces=[self._namespace()], bookmark_interval=Duration(seconds=1))


def _set(message: Message, field: FieldDescriptor, value: Any) -> None:
    try:
        setattr(message, field.name, value)
    except (ValueError, TypeError):  # beyond the range of the field's type, so that it can't be encoded either
        message.ClearField(field.name)


def _values(field: FieldDescriptor, value: Any) -> list[Any]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return [*value.keys(), *value.values()]
    return list(value) if field.is_repeated else [value]


def decoded(message: Message, raw: bytes) -> Message | None:
    """Returns the message that the bytes encode; None: they encode none."""
    try:
        message.ParseFromString(raw)
    except DecodeError:
        return None
    return message
