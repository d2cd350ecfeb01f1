"""The status that a part sends: the state of its namespace, as watchers see it."""

from __future__ import annotations

from typing import TypeAlias

from topicpolicies.v1 import service_pb2

from ...core.errors import PolicyError
from ...core.reasons import Reason
from ...namespaces.namespace import Namespace, Phase
from .stages import Stage

Status: TypeAlias = tuple[service_pb2.NamespaceState.ValueType, Reason | None, str]
"""The content of a status: the namespace's state, the reason, and the reason in words."""
ASSUMED: Status = (service_pb2.NAMESPACE_STATE_READY, None, "")
"""The status that a client assumes before it is sent one: a namespace that is READY from the start sends none."""


def status_of(name: str, stage: Stage, problem: PolicyError | None, namespace: Namespace | None) -> Status:
    """Returns the status of a part whose caller may watch the namespace.

    Args:
        name: ``tenant/namespace``.
        stage: the stage of the part.
        problem: why the part can't follow the namespace, other than the state of the namespace itself; None: nothing is known of that kind.
        namespace: the namespace; None: the part has not loaded it yet.
    """
    if stage is Stage.DISABLED:
        why = f"The topic policies of the watched topics of {name} are disabled."
        return service_pb2.NAMESPACE_STATE_DISABLED, Reason.TOPIC_POLICIES_DISABLED, why
    if problem is not None:
        return failed_status(problem)
    if namespace is None or namespace.phase is Phase.READY:
        return ASSUMED
    if namespace.phase is Phase.LOADING:
        return service_pb2.NAMESPACE_STATE_LOADING, namespace.cause, namespace.problem or f"{name} is being read."
    return service_pb2.NAMESPACE_STATE_FAILED, namespace.cause, namespace.problem


def failed_status(problem: PolicyError) -> Status:
    """Returns the status FAILED, with the reason and the message of an error."""
    return service_pb2.NAMESPACE_STATE_FAILED, problem.reason, problem.message
