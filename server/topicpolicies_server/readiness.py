"""Whether a process is alive, and ready: whether its change log can be reached, and whether it goes on serving.

One question without an answer is no outage: the log is only *doubted* then. It is *cut off* when it has not answered for longer than the
patience; then what waits for it is refused. The process is ready in READY and DOUBTED. Listeners are called, and the transition is logged
and counted, whenever this changes.
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
from .logs.change_log import ChangeLogs, LogError
from .tasks import RestartedTask

_LOG = logging.getLogger(__name__)
_WELL_SECONDS = 2.0
"""The pause between two questions while the log answers."""
_ILL_SECONDS = 0.5
"""The pause between two questions while it does not."""
_ANSWER_SECONDS = 4.0
"""How long an answer may take, however long the log itself would wait."""
_FIRST_SECONDS = 2.0
"""How long ``Readiness.start`` waits for the first answer."""
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


class Readiness:
    """Asks a log, from time to time, whether it can be reached. It belongs to one event loop; other threads may read it."""

    def __init__(self, patience_seconds: float, log: ChangeLogs | None = None, *, known: bool = False) -> None:
        """Asks nothing yet.

        Args:
            patience_seconds: how long the log may go without an answer before it counts as out of reach.
            log: the log that is asked.
            known: whether the log is known to be in reach: the process is ready at once.
        """
        self._log = log
        self._patience = patience_seconds
        self.state = State.READY if known else State.STARTING
        self.since = 0.0
        """Since when there has been no answer, in monotonic seconds; has a meaning in STARTING, DOUBTED and CUT_OFF."""
        self.problem: PolicyError | None = None
        """Why the last question had no answer; None: it had one."""
        self._remark = ""
        self._listeners: list[Callable[[], None]] = []
        self._first = asyncio.Event()
        self._turned_at = 0.0
        self._task = RestartedTask(
            "asking whether the change log can be reached", self._run, pause_seconds=_ILL_SECONDS, failed=self._failed
        )

    async def start(self) -> None:
        """Begins to ask. Returns with the first answer, or soon without one: clients may reach the process before it is ready."""
        self.since = self._turned_at = time.monotonic()
        self._task.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._first.wait()

    async def stop(self) -> None:
        """Ends asking."""
        await self._task.stop()

    @property
    def ready(self) -> bool:
        """Whether the process is ready."""
        return self.state in (State.READY, State.DOUBTED)

    @property
    def cut_off(self) -> bool:
        """Whether the log is known to be out of reach."""
        return self.state is State.CUT_OFF

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Adds a listener for transitions; listeners are called in the order of their addition. It must return soon and must not raise."""
        self._listeners.append(listener)

    def answered(self, now: float) -> None:
        """Notes that the log has answered; ``now`` is monotonic seconds."""
        self.problem = None
        if self.state is State.DOUBTED:
            self.state = State.READY
        elif self.state is State.CUT_OFF:
            seconds = now - self.since
            fields = {"event": "log_reached", "seconds": round(seconds, 1)}
            _LOG.warning("ready: the change log can be reached again, after %.1f s", seconds, extra={"fields": fields})
            self._go(State.READY)
        elif self.state is State.STARTING:
            _LOG.debug("ready: the change log can be reached", extra={"fields": {"event": "log_reached"}})
            self._go(State.READY)

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
        seconds = now - self.since
        if self.state is not State.CUT_OFF and seconds >= self._patience:
            fields = {"event": "log_cut_off", "reason": str(problem.reason), "seconds": round(seconds, 1)}
            _LOG.error("not ready: the change log can't be reached: %s", problem.message, extra={"fields": fields})
            self._go(State.CUT_OFF)
            if self._log is not None and isinstance(problem, LogError):
                self._log.cut_off(problem)

    def drained(self) -> None:
        """Notes that the process stops."""
        if self.state is not State.DRAINING:
            _LOG.info("not ready: stopping", extra={"fields": {"event": "draining"}})
            self._go(State.DRAINING)

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

    def report(self) -> Report:
        """Returns the results of all checks now. Any thread may call it."""
        state, problem, now, log = self.state, self.problem, time.monotonic(), ""
        if state is State.STARTING:
            log = "The change log has not answered yet" + (f": {problem.message}" if problem is not None else ".")
        elif state is State.CUT_OFF and problem is not None:
            log = f"The change log has been out of reach for {now - self.since:.0f} s ({problem.reason}): {problem.message}"
        silent = now - self._turned_at
        loop = Check("loop", f"The event loop has not turned for {silent:.0f} s." if silent > STUCK_SECONDS else "")
        draining = Check("draining", "The process stops." if state is State.DRAINING else "")
        return Report((loop,), (loop, Check("log", log, self._remark), draining))

    def _go(self, state: State) -> None:
        self.state = state
        for listener in self._listeners:
            listener()

    async def _run(self) -> None:
        while True:
            self._turned_at = time.monotonic()
            await self._ask()
            self._first.set()
            await asyncio.sleep(min(_WELL_SECONDS if self.state is State.READY else _ILL_SECONDS, max(self._patience, 0.1)))

    async def _ask(self) -> None:
        assert self._log is not None, "a log that is asked"
        asked = time.monotonic()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                remark = await self._log.reach() or ""
        except TimeoutError:
            problem = LogError(LogState.UNREACHABLE, f"There was no answer within {_ANSWER_SECONDS:g} s.")
            self.failed(problem, asked, time.monotonic())
        except PolicyError as error:
            self.failed(error, asked, time.monotonic())
        else:
            if remark and remark != self._remark:
                _LOG.warning("%s", remark, extra={"fields": {"event": "log_remark"}})
            self._remark = remark
            self.answered(time.monotonic())

    def _failed(self, error: BaseException) -> None:
        """Treats an unexpected failure of asking as a question without an answer."""
        now = time.monotonic()
        self.failed(LogError(LogState.UNREACHABLE, f"The check failed ({type(error).__name__})."), now, now)
        self._first.set()
