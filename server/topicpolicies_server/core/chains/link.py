"""A link of a chain: a request that was computed, and where its event is.

A link without an event is WAITING: its answer writes nothing, and holds if those before it succeed and it is confirmed. It has no other
state. A link with an event goes through these, by what is told of it (``TRANSITIONS``):

===========  =========  ===================  ===================  ===================  ===================  ===================
state        folded     a later one was      not acknowledged     not acknowledged,    appended again       the log was opened
                        folded before it     (may be there)       and not there                             anew, and lacks it
===========  =========  ===================  ===================  ===================  ===================  ===================
UNDER_WAY    CONCLUDED  OVERTAKEN            DOUBTFUL             REFUSED                                   DOUBTFUL
OVERTAKEN    CONCLUDED  OVERTAKEN            LOST                 LOST                                      LOST
DOUBTFUL     CONCLUDED  LOST                 DOUBTFUL             UNKNOWN              AGAIN                DOUBTFUL
AGAIN        CONCLUDED  LOST                 DOUBTFUL             UNKNOWN                                   DOUBTFUL
===========  =========  ===================  ===================  ===================  ===================  ===================

- UNDER_WAY: the log owes an answer. AGAIN: it owes one to the second copy, and the first may be there.
- OVERTAKEN: the log owes an answer, and it is known which one. Events of one key stand in the log in the order in which they were
  appended, so one that was not folded before a later one is not there.
- DOUBTFUL: nothing is owed, and it may be there. A later event will tell; if none is under way, it is appended again.

The link leaves its chain with the rest: CONCLUDED, the fold says what came of it; LOST, it is certainly not in the log, and its request is
computed again; REFUSED, likewise, and the log says why; UNKNOWN, the second copy was refused and the first may be there.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from ..policies.documents import Settings
from ..policies.events import Event, Remembered
from .request import Request


class State(enum.Enum):
    """Where a link's event is."""

    __hash__ = object.__hash__  # its own goes by way of the name: too slow for what is looked up with every event
    WAITING = enum.auto()
    UNDER_WAY = enum.auto()
    OVERTAKEN = enum.auto()
    DOUBTFUL = enum.auto()
    AGAIN = enum.auto()
    CONCLUDED = enum.auto()
    LOST = enum.auto()
    REFUSED = enum.auto()
    UNKNOWN = enum.auto()


class News(enum.Enum):
    """What is told of a link's event."""

    __hash__ = object.__hash__
    FOLDED = enum.auto()
    PASSED = enum.auto()
    """A later one was folded before it."""
    NOT_ACKNOWLEDGED = enum.auto()
    """It may be in the log."""
    NOT_THERE = enum.auto()
    """It was not acknowledged, and is not in the log."""
    APPENDED_AGAIN = enum.auto()
    MISSED = enum.auto()
    """The log was opened anew and read, and did not tell of it."""


TRANSITIONS: Mapping[State, Mapping[News, State]] = {
    State.UNDER_WAY: {
        News.FOLDED: State.CONCLUDED,
        News.PASSED: State.OVERTAKEN,
        News.NOT_ACKNOWLEDGED: State.DOUBTFUL,
        News.NOT_THERE: State.REFUSED,
        News.MISSED: State.DOUBTFUL,
    },
    State.OVERTAKEN: {
        News.FOLDED: State.CONCLUDED,
        News.PASSED: State.OVERTAKEN,
        News.NOT_ACKNOWLEDGED: State.LOST,
        News.NOT_THERE: State.LOST,
        News.MISSED: State.LOST,
    },
    State.DOUBTFUL: {
        News.FOLDED: State.CONCLUDED,
        News.PASSED: State.LOST,
        News.NOT_ACKNOWLEDGED: State.DOUBTFUL,
        News.NOT_THERE: State.UNKNOWN,
        News.APPENDED_AGAIN: State.AGAIN,
        News.MISSED: State.DOUBTFUL,
    },
    State.AGAIN: {
        News.FOLDED: State.CONCLUDED,
        News.PASSED: State.LOST,
        News.NOT_ACKNOWLEDGED: State.DOUBTFUL,
        News.NOT_THERE: State.UNKNOWN,
        News.MISSED: State.DOUBTFUL,
    },
}

_OWED = frozenset({State.UNDER_WAY, State.OVERTAKEN, State.AGAIN})
NOTHING = Remembered("", "", "", "")


@dataclass(eq=False, slots=True)
class Link:
    """A request in a chain, computed."""

    request: Request
    event: Event | None
    """None: it is WAITING."""
    carried: Remembered = NOTHING
    """What later events say of it while its version is not known."""
    state: State = State.WAITING
    before: Settings | None = None
    """The document that its event was computed from."""

    @property
    def event_id(self) -> str:
        """Its event's id; "" if it has none."""
        return self.event.stamp.event_id if self.event is not None and self.event.stamp is not None else ""

    @property
    def owed(self) -> bool:
        """Whether the log owes an answer, which will tell of it and of all before it."""
        return self.state in _OWED

    def on(self, news: News) -> State:
        """Takes what is told of its event. Returns the state after it."""
        self.state = TRANSITIONS[self.state][news]
        return self.state
