"""The stages of a part of a watch: the table in the module's docstring is what the code does."""

from __future__ import annotations

import re

import pytest

from topicpolicies_server.rpc.watching import stages
from topicpolicies_server.rpc.watching.stages import NEXT, Stage, StageEvent, after


def _written() -> dict[tuple[Stage, StageEvent], Stage]:
    """Returns the transitions of the table in the docstring."""
    found: dict[tuple[Stage, StageEvent], Stage] = {}
    stage = None
    for line in (stages.__doc__ or "").splitlines():
        if begun := re.match(r"([A-Z]+) ", line):
            stage = Stage[begun[1]]
        if stage is not None and (transition := re.search(r" ([a-z]+): ([A-Z]+)$", line)):
            found[stage, StageEvent[transition[1].upper()]] = Stage[transition[2]]
    return found


def test_the_table_in_the_docstring_is_the_one_in_the_code() -> None:
    of_all = {StageEvent.FAILED: Stage.FAILED, StageEvent.ENDS: Stage.ENDED}
    everywhere = {(stage, event): to for stage in Stage if stage is not Stage.ENDED for event, to in of_all.items()}
    assert _written() | everywhere == NEXT


def test_every_stage_can_be_reached_and_every_stage_but_ended_can_be_left() -> None:
    assert {*NEXT.values()} == set(Stage)
    assert {stage for stage, _ in NEXT} == set(Stage) - {Stage.ENDED}
    assert {event for _, event in NEXT} == set(StageEvent)


@pytest.mark.parametrize("stage", Stage)
def test_an_event_that_is_not_in_the_table_is_an_error(stage: Stage) -> None:
    for event in StageEvent:
        if (stage, event) in NEXT:
            assert after(stage, event) is NEXT[stage, event]
        else:
            with pytest.raises(ValueError, match=f"{event.name} can't come while {stage.name}"):
                after(stage, event)
