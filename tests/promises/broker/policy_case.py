"""One policy with two values, and the calls of the admin API that set, read and remove it: a row of ``policy_cases``."""

from __future__ import annotations

import enum
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from google.protobuf.message import Message

from tests.broker.admin import Admin, AdminError
from topicpolicies.v1 import policies_pb2 as pb

SUBSCRIPTION = "billing"
HERE = "standalone"
"""The name of the brokers' own cluster."""
ELSEWHERE = "elsewhere"
"""A cluster that is configured but does not exist."""
SHADOWS = ("shadow-one", "shadow-two")
"""Local names of the topics that ``prepare`` creates for ``Need.SHADOW_TOPICS``."""
NAMESPACE = "{namespace}"
"""Stands for ``tenant/namespace`` in the values of cases; ``Case.in_namespace`` replaces it."""

GROUPS: Mapping[str, str] = {
    "delayed_delivery_enabled": "delayed_delivery",
    "delayed_delivery_max_delay_in_millis": "delayed_delivery",
    "delayed_delivery_tick_time_millis": "delayed_delivery",
}
"""The fields that one call of the admin API sets together, and the name of their setting."""


class Scope(enum.IntEnum):
    """The scope of a document."""

    LOCAL = pb.SCOPE_LOCAL
    GLOBAL = pb.SCOPE_GLOBAL


BOTH = (Scope.LOCAL, Scope.GLOBAL)
LOCAL_ONLY = (Scope.LOCAL,)


class Need(enum.Enum):
    """What must exist before a policy can be set."""

    NOTHING = "nothing"
    TWO_CLUSTERS = "a namespace that is replicated to another cluster"
    SHADOW_TOPICS = "topics to shadow the topic"


class Call(NamedTuple):
    """A call of the admin API on one topic."""

    method: str
    path: str
    """The part of the path after the topic's name."""
    body: Any
    query: Mapping[str, str]

    def on(self, admin: Admin, topic: str) -> Any:
        """Makes the call on ``tenant/namespace/topic``, and returns the answer's JSON.

        Raises:
            AdminError: the broker refused the call.
        """
        return admin.call(self.method, f"persistent/{topic}/{self.path}", self.body, **self.query)


class Example(NamedTuple):
    """A value of a policy in two forms."""

    policies: pb.TopicPolicies
    """A document with this value only."""
    json: Any
    """The value as the admin API takes it, and answers it."""


class Case(NamedTuple):
    """One policy: a setting of the document."""

    setting: str
    """A field of the document, ``delayed_delivery``, or a map's field and a key, separated by a slash."""
    path: str
    """The endpoint below the topic."""
    examples: tuple[Example, ...]
    """Two values, which differ in every leaf."""
    scopes: tuple[Scope, ...] = BOTH
    """The scopes in which the admin API has the policy."""
    need: Need = Need.NOTHING
    method: str = "POST"
    """The method with which the admin API sets it."""
    bodiless: bool = False
    """Whether true is set by a call without a body, and false by removing the policy."""
    parameter: str = ""
    """The query parameter that takes the value, if the body does not."""
    query: Mapping[str, str] = {}
    """Further query parameters of the calls that set and remove it."""
    answer_path: str = ""
    """The endpoint that reads it, if it is another one."""
    settable: bool = True
    """Whether the admin API of a broker without plug-ins accepts the values."""
    removable: bool = True
    """Whether the admin API can remove it."""
    removed: pb.TopicPolicies = pb.TopicPolicies()
    """What remains of it in the document after the admin API has removed it."""
    unset: pb.TopicPolicies = pb.TopicPolicies()
    """What the admin API answers when it is not set."""

    @property
    def mask(self) -> tuple[str, ...]:
        """The paths of a field mask that cover the whole policy."""
        name, separator, key = self.setting.partition("/")
        if separator:
            return (f"{name}.{key}",)
        return tuple(field for field, group in GROUPS.items() if group == name) or (name,)

    def leaf_paths(self) -> list[str]:
        """Returns the field mask paths of its leaves; both values set each of them."""
        return sorted(_leaves(self.examples[0].policies))

    def in_namespace(self, namespace: str) -> Case:
        """Returns the case with a namespace's name in the values that need one."""

        def put(example: Example) -> Example:
            policies = pb.TopicPolicies.FromString(example.policies.SerializeToString())
            policies.shadow_topics[:] = [topic.replace(NAMESPACE, namespace) for topic in policies.shadow_topics]
            return Example(policies, [each.replace(NAMESPACE, namespace) for each in example.json])

        return self._replace(examples=tuple(map(put, self.examples))) if self.need is Need.SHADOW_TOPICS else self

    def setting_call(self, example: Example, scope: Scope) -> Call:
        """Returns the call that sets one of the values."""
        query = {**self.query, **_query(scope)}
        if self.bodiless:
            return Call(self.method if example.json else "DELETE", self.path, None, query)
        if self.parameter:
            return Call(self.method, self.path, None, {**query, self.parameter: str(example.json)})
        return Call(self.method, self.path, example.json, query)

    def reading_call(self, scope: Scope) -> Call:
        """Returns the call that reads the value in one scope."""
        return Call("GET", self.answer_path or self.path, None, _query(scope))

    def removing_call(self, scope: Scope) -> Call:
        """Returns the call that removes the policy."""
        return Call("DELETE", self.path, None, {**self.query, **_query(scope)})

    def read(self, answer: Any) -> pb.TopicPolicies:
        """Returns an answer of the admin API as a document, which is empty if the policy is not set."""
        policies = pb.TopicPolicies()
        name, separator, key = self.setting.partition("/")
        if answer is None:
            return policies
        if name == "delayed_delivery":
            policies.delayed_delivery_enabled = answer["active"]
            policies.delayed_delivery_tick_time_millis = answer["tickTime"]
            policies.delayed_delivery_max_delay_in_millis = answer["maxDeliveryDelayInMillis"]
        elif name == "back_log_quota_map":
            if key in answer:
                filled(policies.back_log_quota_map[key], answer[key])
        elif separator:
            filled(policies.subscription_policies[key].dispatch_rate, answer)
        else:
            _put(policies, pb.TopicPolicies.DESCRIPTOR.fields_by_name[name], answer)
        return policies


def comparable(policies: pb.TopicPolicies) -> pb.TopicPolicies:
    """Returns a document with sorted lists: the broker keeps them as sets."""
    policies = pb.TopicPolicies.FromString(policies.SerializeToString())
    for elements in (policies.replication_clusters, policies.shadow_topics):
        elements[:] = sorted(elements)
    policies.subscription_types_enabled[:] = sorted(policies.subscription_types_enabled)
    return policies


def settings(policies: pb.TopicPolicies) -> dict[str, pb.TopicPolicies]:
    """Returns the settings of a document, each as a document of its own."""
    found: dict[str, pb.TopicPolicies] = {}
    for field, value in policies.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key in value:
                getattr(found.setdefault(f"{field.name}/{key}", pb.TopicPolicies()), field.name)[key].CopyFrom(value[key])
        else:
            only = pb.TopicPolicies()
            only.CopyFrom(policies)
            for other, _ in policies.ListFields():
                if other.name != field.name:
                    only.ClearField(other.name)  # type: ignore[arg-type]
            found.setdefault(GROUPS.get(field.name, field.name), pb.TopicPolicies()).MergeFrom(only)
    return found


def prepare(admin: Admin, case: Case, namespace: str, topic: str) -> tuple[str, Case]:
    """Creates a topic on which a case can be set, and what else the case needs.

    Args:
        admin: the admin API of the broker.
        case: the policy.
        namespace: where to create the topic. A case that needs two clusters needs a ``replicated_namespace``.
        topic: its local name.

    Returns:
        ``tenant/namespace/topic`` and the case for that namespace.
    """
    if case.need is Need.SHADOW_TOPICS:
        for shadow in SHADOWS:
            ensure(admin, f"persistent/{namespace}/{shadow}", None)
    admin.create_topic(f"{namespace}/{topic}")
    return f"{namespace}/{topic}", case.in_namespace(namespace)


def replicated_namespace(admin: Admin, partitions: int = 0) -> str:
    """Creates a namespace of the tenant ``replicated`` that is replicated to ``ELSEWHERE``, which does not answer; its system topic exists.

    Before the broker creates a topic by itself it asks the other clusters and waits for answers, so the system topic is created before the
    replication is configured. Call ``stop_replicating`` after use, because the broker keeps trying to connect.
    """
    ensure(admin, f"clusters/{ELSEWHERE}", {"serviceUrl": "http://127.0.0.1:9", "brokerServiceUrl": "pulsar://127.0.0.1:9"})
    ensure(admin, "tenants/replicated", {"allowedClusters": [HERE, ELSEWHERE]})
    namespace = f"replicated/{uuid.uuid4().hex[:12]}"
    admin.call("PUT", f"namespaces/{namespace}", {"replication_clusters": [HERE]})
    if partitions:
        admin.partition_change_events(namespace, partitions)
    admin.create_topic(f"{namespace}/first")
    admin.call("POST", f"persistent/{namespace}/first/maxProducers", 1)
    admin.call("POST", f"namespaces/{namespace}/replication", [HERE, ELSEWHERE])
    return namespace


def stop_replicating(admin: Admin, namespace: str) -> None:
    """Ends the replication of a ``replicated_namespace``."""
    admin.call("POST", f"namespaces/{namespace}/replication", [HERE])


def ensure(admin: Admin, path: str, body: Any) -> None:
    """Creates a cluster or a tenant unless it is there: other processes of the run share the broker."""
    try:
        admin.call("PUT", path, body)
    except AdminError as error:
        if error.status != 409:
            raise


def _query(scope: Scope) -> dict[str, str]:
    return {"isGlobal": "true"} if scope is Scope.GLOBAL else {}


def _leaves(message: Message, at: tuple[str, ...] = ()) -> Iterator[str]:
    for field, value in message.ListFields():
        path = (*at, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key in value:
                if isinstance(value[key], Message):
                    yield from _leaves(value[key], (*path, key))
                else:
                    yield ".".join((*path, key))
        elif isinstance(value, Message):
            yield from _leaves(value, path)
        else:
            yield ".".join(path)


def filled(message: Message, members: Mapping[str, Any]) -> None:
    """Puts a JSON object's members into a message, except computed members and nulls. A quota's size also has an older name."""
    if isinstance(message, pb.BacklogQuota):
        members = {"limitSize": members.get("limit"), **{name: value for name, value in members.items() if name != "limit"}}
    fields = {field.json_name: field for field in message.DESCRIPTOR.fields}
    for name, value in members.items():
        if value is not None and name not in ("s3Driver", "gcsDriver", "fileSystemDriver"):
            _put(message, fields[name], value)


def _put(message: Message, field: Any, value: Any) -> None:
    place = getattr(message, field.name)
    if isinstance(value, dict) and field.message_type is not None and field.message_type.GetOptions().map_entry:
        place.update(value)
    elif isinstance(value, dict):
        place.SetInParent()
        filled(place, value)
    elif field.is_repeated:
        place.extend([_scalar(field, each) for each in value])
    else:
        setattr(message, field.name, _scalar(field, value))


def _scalar(field: Any, value: Any) -> Any:
    if field.enum_type is None:
        return value
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", field.enum_type.name).upper()
    symbol = re.sub(r"\W", "_", value).upper()
    return field.enum_type.values_by_name[f"{prefix}_{symbol}"].number
