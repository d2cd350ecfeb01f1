"""Whether a process is ready: whether the change log behind it can be reached, and whether it goes on serving.

=========  =====================================  =========  ================================================================
state      event                                  next       what follows
=========  =====================================  =========  ================================================================
STARTING   answered                               READY      told
STARTING   failed, for less than the patience     STARTING   not ready yet; whoever asks waits
STARTING   failed, for longer                     CUT_OFF    told, with why
READY      failed                                 DOUBTED    nothing: one question without an answer is no outage
DOUBTED    answered                               READY      nothing
DOUBTED    failed, for less than the patience     DOUBTED    nothing
DOUBTED    failed, for longer                     CUT_OFF    told, with why; what waits for the log is refused
CUT_OFF    failed                                 CUT_OFF    why, as it is now
CUT_OFF    answered                               READY      told, with how long it was
any        drained                                DRAINING   told
DRAINING   all                                    DRAINING   nothing
=========  =====================================  =========  ================================================================

READY and DOUBTED are ready. Each transition is told once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

from ..core.errors import PolicyError
from ..core.reasons import Reason
from ..logs.change_log import LogError

_NEEDED_BY_ALL = frozenset({Reason.LOG_UNREACHABLE})
"""Problems with which nothing can be appended: changes are refused at once. Others concern what has to be opened or asked first."""
_TOLD_BY_THE_LOG = frozenset({Reason.APPEND_FAILED})
"""Problems that the log refuses appends with itself, at once, while everything else goes on."""


class State(enum.Enum):
    """What is known of the log."""

    STARTING = "starting"
    """Nothing: it has not answered yet."""
    READY = "ready"
    DOUBTED = "doubted"
    """It has answered, and does not now."""
    CUT_OFF = "cut off"
    """It has not answered for longer than is waited."""
    DRAINING = "draining"
    """The process stops."""


class Transition(NamedTuple):
    """A change that is told."""

    before: State
    after: State
    seconds: float
    """How long the state before was, reckoned from the first sign of it."""
    problem: PolicyError | None
    """Why the log can't be reached now; None: it can."""

    @property
    def ready(self) -> bool:
        """Whether the process is ready since."""
        return self.after is State.READY


class Readiness:
    """What is known, and who is told of its changes. It belongs to one event loop; other threads may read ``state`` and ``problem``."""

    def __init__(self, patience_seconds: float, *, known: bool = False, now: float = 0.0) -> None:
        """Nothing has answered yet.

        Args:
            patience_seconds: how long the log may go without an answer before it counts as out of reach.
            known: whether the log is reached for as long as the process runs: it is ready at once.
            now: monotonic seconds.
        """
        self._patience = patience_seconds
        self.state = State.READY if known else State.STARTING
        self.since = now
        """When that began, in monotonic seconds; of DOUBTED and CUT_OFF, when the first question was asked that had no answer."""
        self.problem: PolicyError | None = None
        """Why the last question had no answer; None: it had one."""
        self.transitions = 0
        """How many were told."""
        self._listeners: list[Callable[[Transition], None]] = []

    @property
    def ready(self) -> bool:
        """Whether the process is ready."""
        return self.state in (State.READY, State.DOUBTED)

    @property
    def cut_off(self) -> bool:
        """Whether the log is known to be out of reach."""
        return self.state is State.CUT_OFF

    def tell(self, listener: Callable[[Transition], None]) -> None:
        """Has somebody told of each transition, in the order of these calls. It must return soon and must not raise."""
        self._listeners.append(listener)

    def answered(self, now: float) -> None:
        """The log has answered; ``now`` is monotonic seconds."""
        self.problem = None
        if self.state in (State.STARTING, State.CUT_OFF):
            self._go(State.READY, now)
        elif self.state is State.DOUBTED:
            self.state, self.since = State.READY, now

    def failed(self, problem: PolicyError, asked: float, now: float) -> None:
        """The log has not answered a question.

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
        """The process stops."""
        if self.state is not State.DRAINING:
            self._go(State.DRAINING, now)

    def refuses_changes(self) -> LogError | None:
        """The error of a change that comes now; None: it is not refused for this."""
        return self._refusal(_NEEDED_BY_ALL)

    def refuses_waiting(self) -> LogError | None:
        """The error of whoever would wait now until something is read or asked; None: it may wait."""
        return self._refusal(None)

    def _refusal(self, reasons: frozenset[Reason] | None) -> LogError | None:
        problem = self.problem
        if self.state is not State.CUT_OFF or problem is None or problem.reason in _TOLD_BY_THE_LOG:
            return None
        if reasons is not None and problem.reason not in reasons:
            return None
        why = problem.message.rstrip(".")
        return LogError(problem.reason, f"The change log can't be reached: {why}. Nothing was done: try again later.", kind=problem.kind)

    def _go(self, state: State, now: float, since: float | None = None) -> None:
        transition = Transition(self.state, state, max(0.0, now - self.since), self.problem)
        self.state, self.since = state, now if since is None else since
        self.transitions += 1
        for listener in self._listeners:
            listener(transition)
