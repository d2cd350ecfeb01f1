"""The stages of a part of a watch: the table of the first page is what the code does."""

from __future__ import annotations

import re

import pytest

from topicpolicies_server.rpc.watching import stages
from topicpolicies_server.rpc.watching.stages import NEXT, Stage, StageEvent, after


def _written() -> dict[tuple[Stage, StageEvent], Stage]:
    """The table as it is written."""
    found: dict[tuple[Stage, StageEvent], Stage] = {}
    stage = None
    for line in (stages.__doc__ or "").splitlines():
        if begun := re.match(r"([A-Z]+) ", line):
            stage = Stage[begun[1]]
        if stage is not None and (told := re.search(r" ([a-z]+): ([A-Z]+)$", line)):
            found[stage, StageEvent[told[1].upper()]] = Stage[told[2]]
    return found


def test_the_written_table_is_the_one_that_holds() -> None:
    of_all = {StageEvent.FAILED: Stage.FAILED, StageEvent.ENDS: Stage.ENDED}
    everywhere = {(stage, event): to for stage in Stage if stage is not Stage.ENDED for event, to in of_all.items()}
    assert _written() | everywhere == NEXT


def test_every_stage_can_be_reached_and_only_the_last_one_is_the_end() -> None:
    assert {*NEXT.values()} == set(Stage)
    assert {stage for stage, _ in NEXT} == set(Stage) - {Stage.ENDED}
    assert {event for _, event in NEXT} == set(StageEvent)


@pytest.mark.parametrize("stage", Stage)
def test_what_is_not_in_the_table_can_not_happen(stage: Stage) -> None:
    for event in StageEvent:
        if (stage, event) in NEXT:
            assert after(stage, event) is NEXT[stage, event]
        else:
            with pytest.raises(ValueError, match=f"{event.name} can't come while {stage.name}"):
                after(stage, event)
