"""GetEffectivePolicy: the policies that are in effect for a topic, and the level that each value comes from.

The levels are the topic's LOCAL and GLOBAL documents, the namespace and the brokers; ``core/policies/resolution`` combines them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..cluster.admission import Admission
from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey, Scope
from ..core.policies import documents, resolution
from ..core.policies.events import ABSENT
from ..core.reading.view import Head
from ..core.reasons import Reason
from ..namespaces.registry import Registry
from . import answers
from .calls import Call
from .problems import Problems, Topic, read_topic


class Question(NamedTuple):
    """A validated request."""

    topic: Topic
    at_least: Mapping[Scope, str]
    """By scope, the version that its document must have reached; "": any."""


def read(message: service_pb2.GetEffectivePolicyRequest) -> Question:
    """Reads a request.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation.
    """
    problems = Problems()
    topic = read_topic(message.topic, problems)
    at_least = {
        Scope.LOCAL: problems.version(message.at_least_local_version, "at_least_local_version"),
        Scope.GLOBAL: problems.version(message.at_least_global_version, "at_least_global_version"),
    }
    problems.check()
    assert topic is not None, "checked"
    return Question(topic, at_least)


async def answer(registry: Registry, admission: Admission | None, question: Question, wire: answers.Wire, context: Call) -> bytes:
    """Returns a serialized ``EffectivePolicy``.

    Args:
        registry: the namespaces.
        admission: gathers facts about the cluster; None: the cluster is not known.
        question: the request.
        wire: serializes the policies.
        context: the call; its ``at_least`` is set to the version that is waited for.

    Raises:
        PolicyError: the policies of the namespace or of the brokers are not known or can't be found out; the topic does not exist; the log
            can't be read, or does not reach a version in time.
    """
    topic = question.topic
    levels = await admission.levels(topic.namespace, PolicyKey(topic.full, Scope.LOCAL)) if admission is not None else None
    if levels is None or levels.namespace is None or levels.broker is None:
        raise PolicyError(
            Kind.FAILED_PRECONDITION,
            Reason.LEVELS_UNKNOWN,
            f"This server does not know the policies of {topic.namespace} and of the brokers: configure them (serve --cluster-file), or"
            " read the documents.",
        )
    heads: dict[Scope, Head | None] = dict.fromkeys(Scope)
    if not levels.disabled:
        served = registry.get(topic.namespace)
        for scope in Scope:
            context.at_least = question.at_least[scope]
            heads[scope] = await served.get(PolicyKey(topic.full, scope), question.at_least[scope])
    local, global_ = (_policies(heads[scope]) for scope in Scope)
    found = resolution.effective(local, global_, levels.namespace, levels.broker)
    told = service_pb2.EffectivePolicy(
        topic=topic.full,
        local_version=_version(heads[Scope.LOCAL]),
        global_version=_version(heads[Scope.GLOBAL]),
        disabled=levels.disabled,
    )
    for path, source in sorted(found.sources.items()):
        told.sources.add(path=path, source=service_pb2.PolicySource.ValueType(source))
    told.policies.MergeFromString(wire(documents.split(found.policies)))
    return told.SerializeToString()


def _policies(head: Head | None) -> TopicPolicies | None:
    return documents.join(head.document) if head is not None and head.document is not None else None


def _version(head: Head | None) -> str:
    return head.version if head is not None else ABSENT
