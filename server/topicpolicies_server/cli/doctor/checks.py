"""A check, its finding, and how checks are run: one after the other, each in bounded time, whatever becomes of the others.

=====================================================  =======================================================================
a check                                                its finding
=====================================================  =======================================================================
returns                                                what it returns
raises                                                 FAILED, with the error in a sentence
has not ended after ``Check.seconds``                  FAILED: it hangs
needs another check that failed or was skipped         SKIPPED: it could only repeat the earlier failure
=====================================================  =======================================================================
"""

from __future__ import annotations

import asyncio
import enum
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from ...threads import DaemonThreads

SECONDS = 10.0
"""The default of ``Check.seconds``."""
_THREADS = 8

T = TypeVar("T")


class Level(enum.Enum):
    """What a finding means."""

    OK = "ok"
    WARNING = "warning"
    """It works, but not well, or not for long."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """The check was not run, or could not decide."""


class Finding(NamedTuple):
    """What a check found."""

    level: Level
    told: str = ""
    """What was found, a sentence."""
    remedy: str = ""
    """What to do about a WARNING or FAILED; empty: ``Check.remedy``."""


def ok(told: str = "") -> Finding:
    """Returns the finding that what is checked holds."""
    return Finding(Level.OK, told)


def warning(told: str, remedy: str = "") -> Finding:
    """Returns the finding that what is checked holds, but not well, or not for long."""
    return Finding(Level.WARNING, told, remedy)


def failed(told: str, remedy: str = "") -> Finding:
    """Returns the finding that what is checked does not hold."""
    return Finding(Level.FAILED, told, remedy)


def skipped(told: str) -> Finding:
    """Returns the finding that nothing was checked; ``told``: why."""
    return Finding(Level.SKIPPED, told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check."""

    name: str
    """The name for programs: the group, a dot, and a name within the group."""
    holds: str
    """What holds if all is well, in a few words for people."""
    why: str
    """What goes wrong otherwise; a sentence."""
    run: Callable[[], Awaitable[Finding]]
    remedy: str
    """What to do otherwise, unless the finding has a remedy of its own."""
    needs: tuple[str, ...] = ()
    """The names of earlier checks that must not have failed or been skipped."""
    seconds: float = SECONDS
    """How long the check may take."""

    @property
    def group(self) -> str:
        """The heading that the check is shown under."""
        return self.name.partition(".")[0]


class Result(NamedTuple):
    """A check, its finding, and how long it took."""

    check: Check
    finding: Finding
    seconds: float

    @property
    def remedy(self) -> str:
        """What to do; empty: nothing."""
        if self.finding.level in (Level.OK, Level.SKIPPED):
            return ""
        return self.finding.remedy or self.check.remedy


async def examine(checks: Sequence[Check], begins: Callable[[Check], None] = lambda _check: None) -> AsyncIterator[Result]:
    """Runs checks in their order, and yields each result as it comes.

    Args:
        checks: the checks to run; each stands behind those that it needs.
        begins: called with each check before it is run.
    """
    levels: dict[str, Level] = {}
    holds = {check.name: check.holds for check in checks}
    for check in checks:
        begins(check)
        began = time.monotonic()
        lacking = next((name for name in check.needs if levels.get(name, Level.SKIPPED) in (Level.FAILED, Level.SKIPPED)), None)
        finding = await _found(check) if lacking is None else skipped(_not_checked(lacking, holds))
        levels[check.name] = finding.level
        yield Result(check, finding, time.monotonic() - began)


def _not_checked(lacking: str, holds: Mapping[str, str]) -> str:
    return f"not checked: first {lacking} must hold" + (f" ({holds[lacking]})" if lacking in holds else "")


async def _found(check: Check) -> Finding:
    try:
        async with asyncio.timeout(check.seconds):
            return await check.run()
    except TimeoutError:
        return failed(f"there was no answer within {check.seconds:g} s")
    except OSError as error:
        return failed(why(error))
    except Exception as error:  # noqa: BLE001 - a check that fails is a finding
        return failed(f"{type(error).__name__}: {' '.join(str(error).split())}"[:300].rstrip(": "))


def why(error: OSError) -> str:
    """Returns the message for an error, the system's where it has a number: asyncio has one of its own for a refused connection."""
    number = 0 if isinstance(error, ssl.SSLError) else error.errno or 0
    told = os.strerror(number) if number > 0 else " ".join(str(error.strerror or error).split())
    return f"{error.filename}: {told}"[:300] if error.filename else told[:300] or type(error).__name__


_threads = DaemonThreads(_THREADS, "doctor")


async def in_thread(ask: Callable[..., T], *arguments: Any) -> T:
    """Calls a function that may block, on a disk or the system's resolver, in a daemon thread, for which the exit does not wait."""
    return await asyncio.wrap_future(_threads.submit(ask, *arguments))
