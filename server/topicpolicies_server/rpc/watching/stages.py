"""The stages of one namespace of a watch, and what leads from each to the next.

============  ==================================================================================  ==================================
stage         what is told on the way into it                                                     event, and the next stage
============  ==================================================================================  ==================================
LOADING       status LOADING                                                                      answers: BEGINNING
                                                                                                  off: DISABLED
                                                                                                  copies: COPYING
DISABLED      status DISABLED; a reset, if anything counted; that named topics are absent;        on: LOADING
              SYNCED
BEGINNING     a reset, if anything counted and the token does not serve                           recorded: RECALLING
                                                                                                  placed: FOLLOWING
RECALLING     what the history has behind the place to go on from                                 recalled: BEGINNING
FOLLOWING     status READY, if another one was told; a snapshot or changes; SYNCED, unless it     interrupted: LOADING
              was told; changes
COPYING       the history, as it is and as it grows; SYNCED at its first end                      none
FAILED        status FAILED, with the reason                                                      again: LOADING
ENDED         the error, which ends the stream                                                    none
============  ==================================================================================  ==================================

From every stage but ENDED ``failed`` leads to FAILED, and ``ends`` to ENDED. What interrupts FOLLOWING is told by ``Interruption``.
"""

from __future__ import annotations

import enum


class Stage(enum.Enum):
    """Where a part is."""

    LOADING = enum.auto()
    DISABLED = enum.auto()
    BEGINNING = enum.auto()
    RECALLING = enum.auto()
    FOLLOWING = enum.auto()
    COPYING = enum.auto()
    FAILED = enum.auto()
    ENDED = enum.auto()


class StageEvent(enum.Enum):
    """What leads a part to its next stage."""

    ANSWERS = enum.auto()
    """The namespace can answer, and it is known which of its topics are disabled."""
    OFF = enum.auto()
    """All that is watched is disabled."""
    ON = enum.auto()
    """Not all of it is any more."""
    COPIES = enum.auto()
    """The mode is ENTRIES."""
    RECORDED = enum.auto()
    """The history may have what is behind the place to go on from."""
    RECALLED = enum.auto()
    """That was told, or it is not all there."""
    PLACED = enum.auto()
    """A watcher goes on from the place, or from a snapshot."""
    INTERRUPTED = enum.auto()
    """The watcher can't go on."""
    FAILED = enum.auto()
    """Something failed, and is to be tried again."""
    AGAIN = enum.auto()
    """The pause behind a failure is over."""
    ENDS = enum.auto()
    """The stream has to end."""


class Interruption(enum.Enum):
    """What interrupts FOLLOWING."""

    BEHIND = enum.auto()
    """Changes have left the ring."""
    REPLACED = enum.auto()
    """The log is another one."""
    SWITCHED = enum.auto()
    """Topics had their policies disabled or enabled."""
    CLOSED = enum.auto()
    """The namespace was closed."""


NEXT: dict[tuple[Stage, StageEvent], Stage] = {
    (Stage.LOADING, StageEvent.ANSWERS): Stage.BEGINNING,
    (Stage.LOADING, StageEvent.OFF): Stage.DISABLED,
    (Stage.LOADING, StageEvent.COPIES): Stage.COPYING,
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
    """The stage that an event leads to.

    Raises:
        ValueError: the event can't come in this stage.
    """
    found = NEXT.get((stage, event))
    if found is None:
        raise ValueError(f"{event.name} can't come while {stage.name}")
    return found
