"""Whether a process is alive, and ready: whether its change log can be reached, and whether it goes on serving.

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

import asyncio
import contextlib
import enum
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from .core.errors import PolicyError
from .core.reasons import LogState
from .logs.change_log import ChangeLog, LogError
from .tasks import RestartedTask

_LOG = logging.getLogger(__name__)
_WELL_SECONDS = 2.0
"""The pause between two questions while the log answers."""
_ILL_SECONDS = 0.5
"""The pause between two questions while it does not."""
_ANSWER_SECONDS = 4.0
"""How long an answer may take, however long the log itself would wait."""
_FIRST_SECONDS = 2.0
"""How long ``LogProbe.start`` waits for the first answer."""
_BEAT_SECONDS = 1.0
STUCK_SECONDS = 30.0
"""An event loop that has not turned for so long is stuck."""


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
        problem = self.problem
        return self.refuses_waiting() if problem is not None and problem.state is LogState.UNREACHABLE else None

    def refuses_waiting(self) -> LogError | None:
        """Returns the error for a caller that would now wait for the log to be read or asked; None: the caller may wait.

        A log that only fails to append refuses appends itself, while everything else goes on.
        """
        problem = self.problem
        if self.state is not State.CUT_OFF or problem is None or problem.state is LogState.APPEND_FAILED:
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


class LogProbe:
    """Asks one log, from time to time, whether it can be reached, and logs each transition. It belongs to the event loop that starts it."""

    def __init__(self, log: ChangeLog, patience_seconds: float) -> None:
        """Asks nothing yet. ``patience_seconds``: how long the log may go without an answer before it counts as out of reach."""
        self._log = log
        self._patience = patience_seconds
        self.readiness = Readiness(patience_seconds, now=time.monotonic())
        """What is known of the log."""
        self.readiness.add_listener(self._report)
        self._first = asyncio.Event()
        self._task = RestartedTask(
            "asking whether the change log can be reached", self._run, longest_seconds=_WELL_SECONDS, failed=self._failed
        )

    async def start(self) -> None:
        """Begins to ask. Returns with the first answer, or soon without one: clients may reach the process before it is ready."""
        self._task.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._first.wait()

    async def stop(self) -> None:
        """Ends asking."""
        await self._task.stop()

    async def _run(self) -> None:
        while True:
            await self._ask()
            self._first.set()
            well = self.readiness.state is State.READY
            await asyncio.sleep(min(_WELL_SECONDS if well else _ILL_SECONDS, max(self._patience, 0.1)))

    async def _ask(self) -> None:
        asked = time.monotonic()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                remark = await self._log.reach() or ""
        except TimeoutError:
            problem = LogError(LogState.UNREACHABLE, f"There was no answer within {_ANSWER_SECONDS:g} s.")
            self.readiness.failed(problem, asked, time.monotonic())
        except PolicyError as error:
            self.readiness.failed(error, asked, time.monotonic())
        else:
            if remark and remark != self.readiness.remark:
                _LOG.warning("%s", remark, extra={"fields": {"event": "log_remark"}})
            self.readiness.remark = remark
            self.readiness.answered(time.monotonic())

    def _failed(self, error: BaseException) -> None:
        """Treats an unexpected failure of asking as a question without an answer."""
        now = time.monotonic()
        self.readiness.failed(LogError(LogState.UNREACHABLE, f"The check failed ({type(error).__name__})."), now, now)
        self._first.set()

    def _report(self, transition: Transition) -> None:
        problem, seconds = transition.problem, transition.seconds
        if transition.after is State.CUT_OFF and problem is not None:
            fields = {"event": "log_cut_off", "reason": str(problem.reason), "seconds": round(seconds, 1)}
            _LOG.error("not ready: the change log can't be reached: %s", problem.message, extra={"fields": fields})
            if isinstance(problem, LogError):
                self._log.cut_off(problem)
        elif transition.after is State.READY and transition.before is State.CUT_OFF:
            fields = {"event": "log_reached", "seconds": round(seconds, 1)}
            _LOG.warning("ready: the change log can be reached again, after %.1f s", seconds, extra={"fields": fields})
        elif transition.after is State.READY:
            _LOG.debug("ready: the change log can be reached", extra={"fields": {"event": "log_reached"}})
        else:
            _LOG.info("not ready: stopping", extra={"fields": {"event": "draining"}})


class Pulse:
    """Whether an event loop turns: the loop notes the time once a second, and any thread can see how long ago that was."""

    def __init__(self) -> None:
        """Begins to note the time."""
        self._loop = asyncio.get_running_loop()
        self._beat()

    @property
    def silent_seconds(self) -> float:
        """How many seconds ago the loop noted the time last. Other threads may ask."""
        return max(0.0, time.monotonic() - self._beat_at)

    def stop(self) -> None:
        """Ends noting the time."""
        self._timer.cancel()

    def _beat(self) -> None:
        self._beat_at = time.monotonic()
        self._timer = self._loop.call_later(_BEAT_SECONDS, self._beat)


class Check(NamedTuple):
    """The result of one check."""

    name: str
    problem: str
    """What is wrong, in a sentence; empty: nothing is."""
    remark: str = ""
    """What operators should know although nothing is wrong; empty: nothing."""


class Report(NamedTuple):
    """The checks on which liveness and readiness depend."""

    live: tuple[Check, ...]
    ready: tuple[Check, ...]


def report(readiness: Readiness, pulse: Pulse) -> Report:
    """Returns the results of all checks now. Any thread may call it."""
    state, problem, silent, log = readiness.state, readiness.problem, pulse.silent_seconds, ""
    if state is State.STARTING:
        log = "The change log has not answered yet" + (f": {problem.message}" if problem is not None else ".")
    elif state is State.CUT_OFF and problem is not None:
        log = f"The change log has been out of reach for {time.monotonic() - readiness.since:.0f} s ({problem.reason}): {problem.message}"
    loop = Check("loop", f"The event loop has not turned for {silent:.0f} s." if silent > STUCK_SECONDS else "")
    draining = Check("draining", "The process stops." if state is State.DRAINING else "")
    return Report((loop,), (loop, Check("log", log, readiness.remark), draining))
