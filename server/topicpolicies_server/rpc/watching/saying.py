"""The status that a part sends: the state of its namespace, as watchers see it."""

from __future__ import annotations

from topicpolicies.v1 import service_pb2

from ...core.errors import PolicyError
from ...core.reasons import Reason
from ...namespaces.namespace import Namespace, Phase
from .outbox import UNTOLD, Said
from .stages import Stage


def said(name: str, stage: Stage, problem: PolicyError | None, namespace: Namespace | None) -> Said:
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
        return failed(problem)
    if namespace is None or namespace.phase is Phase.READY:
        return UNTOLD
    if namespace.phase is Phase.LOADING:
        return service_pb2.NAMESPACE_STATE_LOADING, namespace.cause, namespace.problem or f"{name} is being read."
    return service_pb2.NAMESPACE_STATE_FAILED, namespace.cause, namespace.problem


def failed(problem: PolicyError) -> Said:
    """Returns the status FAILED, with the reason and the message of an error."""
    return service_pb2.NAMESPACE_STATE_FAILED, problem.reason, problem.message
