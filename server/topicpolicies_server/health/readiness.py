"""Whether a process is ready: whether its change log can be reached, and whether it goes on serving.

=========  =====================================  =========  ================================================================
state      event                                  next       what follows
=========  =====================================  =========  ================================================================
STARTING   answered                               READY      reported
STARTING   failed, for less than the patience     STARTING   not ready yet; callers that need the log wait
STARTING   failed, for longer                     CUT_OFF    reported, with the problem
READY      failed                                 DOUBTED    nothing: one question without an answer is no outage
DOUBTED    answered                               READY      nothing
DOUBTED    failed, for less than the patience     DOUBTED    nothing
DOUBTED    failed, for longer                     CUT_OFF    reported, with the problem; what waits for the log is refused
CUT_OFF    failed                                 CUT_OFF    the problem is updated
CUT_OFF    answered                               READY      reported, with how long the log was out of reach
any        drained                                DRAINING   reported
DRAINING   all                                    DRAINING   nothing
=========  =====================================  =========  ================================================================

The process is ready in READY and DOUBTED. Listeners get each reported transition once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

from ..core.errors import PolicyError
from ..core.reasons import LogState
from ..logs.change_log import LogError

_NEEDED_BY_ALL = LogState.UNREACHABLE
"""The problem with which nothing can be appended, so all changes are refused at once. Others only concern what has to be opened or asked
first."""
_TOLD_BY_THE_LOG = LogState.APPEND_FAILED
"""The problem for which the log itself refuses appends, at once, while everything else goes on."""


class State(enum.Enum):
    """What is known of the log."""

    STARTING = "starting"
    """Nothing: the log has not answered yet."""
    READY = "ready"
    DOUBTED = "doubted"
    """The log has answered, and does not now."""
    CUT_OFF = "cut off"
    """The log has not answered for longer than the patience."""
    DRAINING = "draining"
    """The process stops."""


class Transition(NamedTuple):
    """A transition that listeners get."""

    before: State
    after: State
    seconds: float
    """How long the state before lasted, reckoned from ``Readiness.since``."""
    problem: PolicyError | None
    """Why the log can't be reached now; None: it can."""

    @property
    def ready(self) -> bool:
        """Whether the process is ready after this transition."""
        return self.after is State.READY


class Readiness:
    """The state machine and its listeners. It belongs to one event loop; other threads may read ``state`` and ``problem``."""

    def __init__(self, patience_seconds: float, *, known: bool = False, now: float = 0.0) -> None:
        """Begins before the log has answered.

        Args:
            patience_seconds: how long the log may go without an answer before it counts as out of reach.
            known: whether the log is known to be in reach for as long as the process runs: it is ready at once.
            now: monotonic seconds.
        """
        self._patience = patience_seconds
        self.state = State.READY if known else State.STARTING
        self.since = now
        """When the state began, in monotonic seconds; of DOUBTED and CUT_OFF, since when there has been no answer."""
        self.problem: PolicyError | None = None
        """Why the last question had no answer; None: it had one."""
        self.remark = ""
        """What the log last answered for operators; "": nothing."""
        self.transitions = 0
        """How many transitions were reported."""
        self._listeners: list[Callable[[Transition], None]] = []

    @property
    def ready(self) -> bool:
        """Whether the process is ready."""
        return self.state in (State.READY, State.DOUBTED)

    @property
    def cut_off(self) -> bool:
        """Whether the log is known to be out of reach."""
        return self.state is State.CUT_OFF

    def add_listener(self, listener: Callable[[Transition], None]) -> None:
        """Adds a listener for transitions; listeners are called in the order of their addition. It must return soon and must not raise."""
        self._listeners.append(listener)

    def answered(self, now: float) -> None:
        """Notes that the log has answered; ``now`` is monotonic seconds."""
        self.problem = None
        if self.state in (State.STARTING, State.CUT_OFF):
            self._go(State.READY, now)
        elif self.state is State.DOUBTED:
            self.state, self.since = State.READY, now

    def failed(self, problem: PolicyError, asked: float, now: float) -> None:
        """Notes that the log has not answered a question.

        Args:
            problem: why.
            asked: when it was asked, in monotonic seconds.
            now: monotonic seconds.
        """
        if self.state is State.DRAINING:
            return
        self.problem = problem
        if self.state is State.READY:
            self.state, self.since = State.DOUBTED, asked
        if self.state in (State.STARTING, State.DOUBTED) and now - self.since >= self._patience:
            self._go(State.CUT_OFF, now, since=self.since)

    def drained(self, now: float) -> None:
        """Notes that the process stops."""
        if self.state is not State.DRAINING:
            self._go(State.DRAINING, now)

    def refuses_changes(self) -> LogError | None:
        """Returns the error with which a change is refused now because the log is out of reach; None: it is not refused for this."""
        return self._refusal(_NEEDED_BY_ALL)

    def refuses_waiting(self) -> LogError | None:
        """Returns the error for a caller that would now wait for the log to be read or asked; None: the caller may wait."""
        return self._refusal(None)

    def _refusal(self, only: LogState | None) -> LogError | None:
        problem = self.problem
        if self.state is not State.CUT_OFF or problem is None or problem.state is _TOLD_BY_THE_LOG:
            return None
        if only is not None and problem.state is not only:
            return None
        why = problem.message.rstrip(".")
        return LogError(
            problem.state or problem.reason,
            f"The change log can't be reached: {why}. Nothing was done: try again later.",
            kind=problem.kind,
        )

    def _go(self, state: State, now: float, since: float | None = None) -> None:
        transition = Transition(self.state, state, max(0.0, now - self.since), self.problem)
        self.state, self.since = state, now if since is None else since
        self.transitions += 1
        for listener in self._listeners:
            listener(transition)
