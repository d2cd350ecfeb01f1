"""The states of a link's event: which can be reached, and what the table of transitions promises."""

from __future__ import annotations

import pytest

from topicpolicies_server.core.chains.link import TRANSITIONS, AppendState, EventReport

END = {AppendState.LOST, AppendState.REFUSED, AppendState.UNKNOWN}


def test_every_state_can_be_reached_and_leads_to_an_end() -> None:
    reached, new = set[AppendState](), {AppendState.UNDER_WAY}
    while new:
        reached |= new
        new = {after for state in new for after in TRANSITIONS.get(state, {}).values()} - reached
    assert reached == set(AppendState)
    assert reached - END == set(TRANSITIONS)
    assert all(END & set(report.values()) for report in TRANSITIONS.values())


@pytest.mark.parametrize("state", list(TRANSITIONS))
def test_an_event_that_may_be_in_the_log_never_becomes_refused(state: AppendState) -> None:
    """REFUSED means that nothing was done: only if the event was appended once and is reported as not in the log."""
    refused = [report for report, after in TRANSITIONS[state].items() if after is AppendState.REFUSED]
    assert refused == ([EventReport.NOT_THERE] if state is AppendState.UNDER_WAY else [])
