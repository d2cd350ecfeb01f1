"""Where a link's event is: every state that can be reached, and what the table says of it."""

from __future__ import annotations

import re

import pytest

from tests.core.chains import KEY
from topicpolicies_server.core.chains import link as link_module
from topicpolicies_server.core.chains.link import TRANSITIONS, EventReport, Link, State
from topicpolicies_server.core.chains.request import Request

END = {State.CONCLUDED, State.LOST, State.REFUSED, State.UNKNOWN}
COLUMNS = (
    EventReport.FOLDED,
    EventReport.PASSED,
    EventReport.NOT_ACKNOWLEDGED,
    EventReport.NOT_THERE,
    EventReport.APPENDED_AGAIN,
    EventReport.MISSED,
)


def test_the_first_page_says_what_the_table_does() -> None:
    text = link_module.__doc__ or ""
    written: dict[State, dict[EventReport, State]] = {}
    for line in text.splitlines():
        cells = [line[start:end].strip() for start, end in _columns(text)] if re.match(r"[A-Z]{5,}", line) else []
        if cells and cells[0] in State.__members__:
            named = zip(COLUMNS, cells[1:], strict=True)
            written[State[cells[0]]] = {report: State[name] for report, name in named if name}
    assert written == TRANSITIONS


def _columns(text: str) -> list[tuple[int, int | None]]:
    rule = next(line for line in text.splitlines() if line.startswith("===="))
    starts = [found.start() for found in re.finditer("=+", rule)]
    return list(zip(starts, [*starts[1:], None], strict=True))


def test_every_state_is_reached_and_none_is_left_without_an_end() -> None:
    reached, new = set[State](), {State.UNDER_WAY}
    while new:
        reached |= new
        new = {after for state in new for after in TRANSITIONS.get(state, {}).values()} - reached
    assert reached == set(State) - {State.WAITING}
    assert reached - END == set(TRANSITIONS)
    assert all(END & set(report.values()) for report in TRANSITIONS.values())


@pytest.mark.parametrize("state", list(TRANSITIONS))
def test_what_may_be_in_the_log_never_fails_as_if_it_were_not(state: State) -> None:
    """REFUSED says that nothing was done: only of what was appended once, and is said not to be there."""
    refused = [report for report, after in TRANSITIONS[state].items() if after is State.REFUSED]
    assert refused == ([EventReport.NOT_THERE] if state is State.UNDER_WAY else [])


def test_what_waits_without_an_event_is_told_nothing() -> None:
    with pytest.raises(KeyError):
        Link(Request(KEY, None, "request", "digest"), None).on(EventReport.FOLDED)
