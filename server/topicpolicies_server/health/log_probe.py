"""Asks the change log, from time to time, whether it can be reached, and logs each transition of the readiness.

A log that can't be asked (it is no ``Reached``) counts as in reach for as long as the process runs.
"""

from __future__ import annotations

import asyncio
import logging
import time

from ..core.errors import PolicyError
from ..core.reasons import LogState
from ..logs.change_log import ChangeLog, LogError, Reached
from ..tasks import RestartedTask
from .readiness import Readiness, State, Transition

_LOG = logging.getLogger(__name__)
_WELL_SECONDS = 2.0
"""The pause between two questions while the log answers."""
_ILL_SECONDS = 0.5
"""The pause between two questions while it does not."""
_ANSWER_SECONDS = 4.0
"""How long an answer may take, however long the log itself would wait."""
_LATE_SECONDS = 1.0
"""If the end of ``_ANSWER_SECONDS`` is noticed later than by this, the process itself did not run (a virtual machine was paused). That says
nothing about the log, unless it happens twice in a row."""
_FIRST_SECONDS = 2.0
"""How long ``start`` waits for the first answer."""


class LogProbe:
    """Probes whether one log can be reached. It belongs to the event loop that starts it."""

    def __init__(self, log: ChangeLog, patience_seconds: float) -> None:
        """Asks nothing yet.

        Args:
            log: the change log to ask.
            patience_seconds: how long it may go without an answer before it counts as out of reach.
        """
        self._log = log if isinstance(log, Reached) else None
        self._patience = patience_seconds
        self.readiness = Readiness(patience_seconds, known=self._log is None, now=time.monotonic())
        """What is known of the log."""
        self.readiness.add_listener(self._told)
        self._first = asyncio.Event()
        self._in_vain = False
        """Whether a question had no answer before the log answered for the first time."""
        self._paused = False
        """Whether this process did not run while the last question had no answer."""
        self._task = RestartedTask(
            "asking whether the change log can be reached", self._run, longest_seconds=_WELL_SECONDS, failed=self._failed
        )

    async def start(self) -> None:
        """Begins to ask. Returns with the first answer, or soon without one: clients may reach the process before it is ready."""
        if self._log is None:
            return
        self._task.start()
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._first.wait()
        except TimeoutError:
            pass

    async def stop(self) -> None:
        """Ends asking."""
        await self._task.stop()

    async def _run(self) -> None:
        assert self._log is not None, "started"
        while True:
            await self._ask(self._log)
            self._first.set()
            self._in_vain = self._in_vain or not self.readiness.ready
            well = self.readiness.state is State.READY
            await asyncio.sleep(min(_WELL_SECONDS if well else _ILL_SECONDS, max(self._patience, 0.1)))

    async def _ask(self, log: Reached) -> None:
        asked = time.monotonic()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                remark = await log.reach() or ""
        except TimeoutError:
            now = time.monotonic()
            self._paused = now - asked > _ANSWER_SECONDS + _LATE_SECONDS and not self._paused
            if not self._paused:
                self.readiness.failed(LogError(LogState.UNREACHABLE, f"There was no answer within {_ANSWER_SECONDS:g} s."), asked, now)
        except PolicyError as error:
            self._paused = False
            self.readiness.failed(error, asked, time.monotonic())
        else:
            self._paused = False
            if remark and remark != self.readiness.remark:
                _LOG.warning("%s", remark, extra={"fields": {"event": "log_remark"}})
            self.readiness.remark = remark
            self.readiness.answered(time.monotonic())

    def _failed(self, error: BaseException) -> None:
        """Treats an unexpected failure of asking as a question without an answer."""
        now = time.monotonic()
        self.readiness.failed(LogError(LogState.UNREACHABLE, f"The check failed ({type(error).__name__})."), now, now)
        self._first.set()

    def _told(self, transition: Transition) -> None:
        problem, seconds = transition.problem, transition.seconds
        if transition.after is State.CUT_OFF and problem is not None:
            fields = {"event": "log_cut_off", "reason": str(problem.reason), "seconds": round(seconds, 1)}
            _LOG.error("not ready: the change log can't be reached: %s", problem.message, extra={"fields": fields})
            if self._log is not None and isinstance(problem, LogError):
                self._log.cut_off(problem)
        elif transition.after is State.READY and transition.before is State.CUT_OFF:
            fields = {"event": "log_reached", "seconds": round(seconds, 1)}
            _LOG.warning("ready: the change log can be reached again, after %.1f s", seconds, extra={"fields": fields})
        elif transition.after is State.READY:
            level = logging.INFO if self._in_vain else logging.DEBUG  # if the first question was answered, there is nothing to report
            _LOG.log(level, "ready: the change log can be reached", extra={"fields": {"event": "log_reached"}})
        else:
            _LOG.info("not ready: stopping", extra={"fields": {"event": "draining"}})
