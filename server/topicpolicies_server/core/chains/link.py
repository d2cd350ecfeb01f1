"""A link of a chain: a request that was computed, its event, and the state of that event on the way to the log and back.

The state changes with each report about that event (``TRANSITIONS``).

- UNDER_WAY: the event was appended, and the outcome of the append is outstanding.
- AGAIN: the event was appended a second time, and that outcome is outstanding. The first copy may be in the log.
- OVERTAKEN: the outcome is outstanding, and can only be a failure. Events of one key stand in the log in the order in which they were
  appended, so an event that was not folded before a later one is not in the log.
- DOUBTFUL: the append failed, and the event may be in the log all the same. The next later event that is folded shows whether it is; if no
  append is outstanding that could show it, the last event of the chain is appended again.

A link whose event is folded leaves its chain, whatever its state: the fold says what it did. So does one that comes to another state:

- LOST: the event is certainly not in the log; its request is computed again.
- REFUSED: the event is certainly not in the log; its request fails with the error of the append.
- UNKNOWN: the second append was refused, and the first copy may be in the log; the outcome of the request is not known.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from ..policies.events import Event, Remembered
from .request import Request


class AppendState(enum.Enum):
    """The state of a link's event; ``TRANSITIONS`` says how it changes."""

    __hash__ = object.__hash__  # Enum's own hashes the name: too slow for a lookup with every event
    UNDER_WAY = enum.auto()
    OVERTAKEN = enum.auto()
    DOUBTFUL = enum.auto()
    AGAIN = enum.auto()
    LOST = enum.auto()
    REFUSED = enum.auto()
    UNKNOWN = enum.auto()


class EventReport(enum.Enum):
    """A report about a link's event."""

    __hash__ = object.__hash__
    PASSED = enum.auto()
    """A later event of the chain was folded before it."""
    NOT_ACKNOWLEDGED = enum.auto()
    """The append failed, or the log was opened anew and the event not found in it; the event may be there, or may yet come."""
    NOT_THERE = enum.auto()
    """The append failed; the event is not in the log."""
    APPENDED_AGAIN = enum.auto()


TRANSITIONS: Mapping[AppendState, Mapping[EventReport, AppendState]] = {
    AppendState.UNDER_WAY: {
        EventReport.PASSED: AppendState.OVERTAKEN,
        EventReport.NOT_ACKNOWLEDGED: AppendState.DOUBTFUL,
        EventReport.NOT_THERE: AppendState.REFUSED,
    },
    AppendState.OVERTAKEN: {
        EventReport.PASSED: AppendState.OVERTAKEN,
        EventReport.NOT_ACKNOWLEDGED: AppendState.LOST,
        EventReport.NOT_THERE: AppendState.LOST,
    },
    AppendState.DOUBTFUL: {
        EventReport.PASSED: AppendState.LOST,
        EventReport.NOT_ACKNOWLEDGED: AppendState.DOUBTFUL,
        EventReport.NOT_THERE: AppendState.UNKNOWN,
        EventReport.APPENDED_AGAIN: AppendState.AGAIN,
    },
    AppendState.AGAIN: {
        EventReport.PASSED: AppendState.LOST,
        EventReport.NOT_ACKNOWLEDGED: AppendState.DOUBTFUL,
        EventReport.NOT_THERE: AppendState.UNKNOWN,
    },
}

OUTSTANDING = frozenset({AppendState.UNDER_WAY, AppendState.OVERTAKEN, AppendState.AGAIN})
"""The outcome of an append is outstanding, which will decide about this event, and about all before it."""


@dataclass(eq=False, slots=True)
class Link:
    """A request of a chain that was computed, with its event."""

    request: Request
    event: Event
    event_id: str
    carried: Remembered
    """The request as later events carry it (``Stamp.remembered``) while its version is not known."""
    state: AppendState = AppendState.UNDER_WAY

    def on(self, report: EventReport) -> AppendState:
        """Applies a report about the event. Returns the state after it."""
        self.state = TRANSITIONS[self.state][report]
        return self.state
