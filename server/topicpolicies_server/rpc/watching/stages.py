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
