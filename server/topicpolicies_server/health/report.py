"""What probes are told: whether the process lives, whether it is ready, and each check by itself."""

from __future__ import annotations

import time
from typing import NamedTuple

from .pulse import STUCK_SECONDS, Pulse
from .readiness import Readiness, State


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    problem: str
    """A sentence; empty: it is well."""


class Report(NamedTuple):
    """What holds now."""

    live: tuple[Check, ...]
    ready: tuple[Check, ...]


def report(readiness: Readiness, pulse: Pulse) -> Report:
    """What holds now. Any thread may ask."""
    silent = pulse.silent_seconds
    loop = Check("loop", f"The event loop has not turned for {silent:.0f} s." if silent > STUCK_SECONDS else "")
    return Report((loop,), (loop, Check("log", _log_problem(readiness)), Check("draining", _draining(readiness))))


def _log_problem(readiness: Readiness) -> str:
    state, since, problem = readiness.state, readiness.since, readiness.problem
    if state is State.STARTING:
        return "The change log has not answered yet" + (f": {problem.message}" if problem is not None else ".")
    if state is State.CUT_OFF and problem is not None:
        return f"The change log has been out of reach for {time.monotonic() - since:.0f} s ({problem.reason}): {problem.message}"
    return ""


def _draining(readiness: Readiness) -> str:
    return "The process stops." if readiness.state is State.DRAINING else ""
