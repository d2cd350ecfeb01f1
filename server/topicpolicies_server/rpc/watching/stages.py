"""The stages of one part (one namespace of a watch), as a state machine: what each stage sends, and which events lead to the next one.

============  ==================================================================================  ==================================
stage         what is sent to the client in it                                                    event, and the next stage
============  ==================================================================================  ==================================
LOADING       status LOADING                                                                      answers: BEGINNING
                                                                                                  off: DISABLED
DISABLED      status DISABLED; a reset, if the client has anything that counts; the absence of    on: LOADING
              each named topic; SYNCED
BEGINNING     a reset, if the client has anything that counts and its token can't be resumed      recorded: RECALLING
              from                                                                                placed: FOLLOWING
RECALLING     the changes that the history has behind the token                                   recalled: BEGINNING
FOLLOWING     status READY, if another status was sent before; a snapshot, or the changes since   interrupted: LOADING
              the token; SYNCED, unless it was sent; changes
FAILED        status FAILED, with the reason                                                      again: LOADING
ENDED         the error, as the status of the call: it ends the stream                            none
============  ==================================================================================  ==================================

From every stage but ENDED the event ``failed`` leads to FAILED, and ``ends`` to ENDED. ``Interruption`` says why FOLLOWING was interrupted.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from topicpolicies.v1 import service_pb2

from ...core.errors import PolicyError
from ...core.reasons import Reason
from ...namespaces.namespace import Namespace, Phase


class Stage(enum.Enum):
    """The stage of a part; the module's table says what each stage sends."""

    LOADING = enum.auto()
    DISABLED = enum.auto()
    BEGINNING = enum.auto()
    RECALLING = enum.auto()
    FOLLOWING = enum.auto()
    FAILED = enum.auto()
    ENDED = enum.auto()


class StageEvent(enum.Enum):
    """An event that leads a part to its next stage."""

    ANSWERS = enum.auto()
    """The namespace can answer, and it is known which of its topics are disabled."""
    OFF = enum.auto()
    """The policies of all watched topics of the namespace are disabled."""
    ON = enum.auto()
    """The policies of some watched topic have been enabled."""
    RECORDED = enum.auto()
    """The history may have the changes behind the token."""
    RECALLED = enum.auto()
    """The changes of the history have been sent, or some of them are missing in it."""
    PLACED = enum.auto()
    """A watcher goes on from the token, or begins with a snapshot."""
    INTERRUPTED = enum.auto()
    """The watcher can't go on."""
    FAILED = enum.auto()
    """A step failed, and will be retried."""
    AGAIN = enum.auto()
    """The pause after a failure is over."""
    ENDS = enum.auto()
    """An error concerns the whole stream, which has to end."""


class Interruption(enum.Enum):
    """Why FOLLOWING was interrupted."""

    BEHIND = enum.auto()
    """The watcher has lost changes: they have left the ring, or its view was replaced, or a document was put right."""
    REPLACED = enum.auto()
    """The namespace has another log now."""
    SWITCHED = enum.auto()
    """The policies of watched topics were disabled or enabled."""
    CLOSED = enum.auto()
    """The namespace was closed: it is no longer in memory."""


NEXT: dict[tuple[Stage, StageEvent], Stage] = {
    (Stage.LOADING, StageEvent.ANSWERS): Stage.BEGINNING,
    (Stage.LOADING, StageEvent.OFF): Stage.DISABLED,
    (Stage.DISABLED, StageEvent.ON): Stage.LOADING,
    (Stage.BEGINNING, StageEvent.RECORDED): Stage.RECALLING,
    (Stage.BEGINNING, StageEvent.PLACED): Stage.FOLLOWING,
    (Stage.RECALLING, StageEvent.RECALLED): Stage.BEGINNING,
    (Stage.FOLLOWING, StageEvent.INTERRUPTED): Stage.LOADING,
    (Stage.FAILED, StageEvent.AGAIN): Stage.LOADING,
    **{(stage, StageEvent.FAILED): Stage.FAILED for stage in Stage if stage is not Stage.ENDED},
    **{(stage, StageEvent.ENDS): Stage.ENDED for stage in Stage if stage is not Stage.ENDED},
}


def after(stage: Stage, event: StageEvent) -> Stage:
    """Returns the stage that an event leads to.

    Raises:
        ValueError: the event is impossible in this stage.
    """
    found = NEXT.get((stage, event))
    if found is None:
        raise ValueError(f"{event.name} can't come while {stage.name}")
    return found


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
