"""A check, what it found, and how checks are run: one after the other, each in bounded time, whatever the others do.

=====================================================  =======================================================================
a check                                                its finding
=====================================================  =======================================================================
returns                                                what it returns
raises                                                 FAILED, with the error in a sentence
has not ended after its seconds                        FAILED: it hangs
needs another one that did not hold, or was skipped    SKIPPED: it could only say the same again
=====================================================  =======================================================================
"""

from __future__ import annotations

import asyncio
import enum
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from ...threads import DaemonThreads

SECONDS = 10.0
"""How long a check may take unless it says otherwise."""
_THREADS = 8

T = TypeVar("T")


class Level(enum.Enum):
    """What a finding means."""

    OK = "ok"
    WARNING = "warning"
    """It works, and will not for ever, or not as it should."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """It was not looked at."""


class Finding(NamedTuple):
    """What a check found."""

    level: Level
    told: str = ""
    """A sentence."""
    remedy: str = ""
    """What to do; of WARNING and FAILED. Empty: what the check itself says."""


def ok(told: str = "") -> Finding:
    """It holds."""
    return Finding(Level.OK, told)


def warning(told: str, remedy: str = "") -> Finding:
    """It holds, and may not for long."""
    return Finding(Level.WARNING, told, remedy)


def failed(told: str, remedy: str = "") -> Finding:
    """It does not hold."""
    return Finding(Level.FAILED, told, remedy)


def skipped(told: str) -> Finding:
    """It is not looked at, and why."""
    return Finding(Level.SKIPPED, told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing to look at."""

    name: str
    """For programs: the group's name, a dot, and its own."""
    holds: str
    """For people: what holds if it is well, a few words."""
    why: str
    """What goes wrong where it does not hold; a sentence."""
    run: Callable[[], Awaitable[Finding]]
    remedy: str
    """What to do where it does not hold; a finding may say it better."""
    needs: tuple[str, ...] = ()
    """Names of checks without which it has nothing to look at."""
    seconds: float = SECONDS
    """How long it may take."""

    @property
    def group(self) -> str:
        """What it is shown under."""
        return self.name.partition(".")[0]


class Result(NamedTuple):
    """A check that was run."""

    check: Check
    finding: Finding
    seconds: float

    @property
    def remedy(self) -> str:
        """What to do; empty if there is nothing to do."""
        if self.finding.level in (Level.OK, Level.SKIPPED):
            return ""
        return self.finding.remedy or self.check.remedy


async def examine(checks: Sequence[Check], begins: Callable[[Check], None] = lambda _check: None) -> AsyncIterator[Result]:
    """Runs checks in their order, and gives each result as it comes.

    Args:
        checks: what to look at; each stands behind those that it needs.
        begins: told of each check before it is run.
    """
    levels: dict[str, Level] = {}
    for check in checks:
        begins(check)
        began = time.monotonic()
        lacking = next((name for name in check.needs if levels.get(name, Level.SKIPPED) in (Level.FAILED, Level.SKIPPED)), None)
        finding = await _found(check) if lacking is None else skipped(f"not looked at: it needs {lacking}")
        levels[check.name] = finding.level
        yield Result(check, finding, time.monotonic() - began)


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
    """What went wrong, in the system's words: asyncio has its own where a connection is refused."""
    number = 0 if isinstance(error, ssl.SSLError) else error.errno or 0
    told = os.strerror(number) if number > 0 else " ".join(str(error.strerror or error).split())
    return f"{error.filename}: {told}"[:300] if error.filename else told[:300] or type(error).__name__


_threads = DaemonThreads(_THREADS, "doctor")


async def in_thread(ask: Callable[..., T], *arguments: Any) -> T:
    """Asks what may block, such as a disk or the system's resolver, in a thread that nobody waits for at the end."""
    return await asyncio.wrap_future(_threads.submit(ask, *arguments))
