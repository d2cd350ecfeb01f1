"""The states of a link's event: which can be reached, and what the table of transitions promises."""

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


def test_the_module_docstring_shows_the_table_of_transitions() -> None:
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


def test_every_state_can_be_reached_and_leads_to_an_end() -> None:
    reached, new = set[State](), {State.UNDER_WAY}
    while new:
        reached |= new
        new = {after for state in new for after in TRANSITIONS.get(state, {}).values()} - reached
    assert reached == set(State) - {State.WAITING}
    assert reached - END == set(TRANSITIONS)
    assert all(END & set(report.values()) for report in TRANSITIONS.values())


@pytest.mark.parametrize("state", list(TRANSITIONS))
def test_an_event_that_may_be_in_the_log_never_becomes_refused(state: State) -> None:
    """REFUSED means that nothing was done: only if the event was appended once and is reported as not in the log."""
    refused = [report for report, after in TRANSITIONS[state].items() if after is State.REFUSED]
    assert refused == ([EventReport.NOT_THERE] if state is State.UNDER_WAY else [])


def test_a_waiting_link_without_an_event_takes_no_report() -> None:
    with pytest.raises(KeyError):
        Link(Request(KEY, None, "request", "digest"), None).on(EventReport.FOLDED)
