"""What a part says of its namespace's state."""

from __future__ import annotations

from topicpolicies.v1 import service_pb2

from ...core.errors import PolicyError
from ...core.reasons import Reason
from ...namespaces.namespace import Namespace, Phase
from .outbox import UNTOLD, Said
from .stages import Stage


def said(name: str, stage: Stage, problem: PolicyError | None, namespace: Namespace | None) -> Said:
    """The state of a namespace, as it is to be told.

    Args:
        name: ``tenant/namespace``.
        stage: of the part.
        problem: why it can't be told of, but for what the namespace itself tells.
        namespace: what is told of; None: it was not asked for yet.
    """
    if stage is Stage.DISABLED:
        why = f"The topic policies of what is watched of {name} are disabled."
        return service_pb2.NAMESPACE_STATE_DISABLED, Reason.TOPIC_POLICIES_DISABLED, why
    if problem is not None:
        return failed(problem)
    if namespace is None or namespace.phase is Phase.READY:
        return UNTOLD
    if namespace.phase is Phase.LOADING:
        return service_pb2.NAMESPACE_STATE_LOADING, namespace.cause, namespace.problem or f"{name} is being read."
    return service_pb2.NAMESPACE_STATE_FAILED, namespace.cause, namespace.problem


def failed(problem: PolicyError) -> Said:
    """A namespace that can't be told of."""
    return service_pb2.NAMESPACE_STATE_FAILED, problem.reason, problem.message
