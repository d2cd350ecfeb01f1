"""Reads files anew while the process runs: certificates, private keys, keys of tokens, files of permissions.

A *source* is a value that is read from one or more files. The module that uses the value says how it is read, and what to do when it has
changed. The files are checked every second, each source on a thread of its own, so a disk that hangs blocks neither the event loop nor
other sources. SIGHUP has all sources read at once (``signals``).

A value stays in force until another one can be read. The states of a source:

=======  ==========================================  =======  ==================================================================
state    event                                       next     what is done
=======  ==========================================  =======  ==================================================================
WELL     the files seem to be unchanged              WELL     nothing
WELL     they changed, and hold the same value       WELL     nothing
WELL     they changed, and hold another value        WELL     the value is put in force; a line in the log
WELL     they changed, and the new value can't be    BROKEN   a line in the log says why, and that the old value stays in force
         read, or not be put in force
any      reading them takes more than                BROKEN   a line in the log, once; the source is not read again before that
         ``_LATE_SECONDS``                                    reading ends
BROKEN   the value still can't be read               BROKEN   nothing, or a line in the log if the reason is another one
BROKEN   the files hold another value                WELL     the value is put in force; a line in the log
BROKEN   the files hold the value that is in force   WELL     a line in the log
any      SIGHUP                                      as above the files are read; a line in the log in any case
=======  ==========================================  =======  ==================================================================

Files that another program may still be writing are not used: files that changed a moment ago are read again until they have not changed for
``_SETTLING_SECONDS``, so that half of a file, which may be valid, is not put in force.

A BROKEN source, and one whose files changed within the last ``_YOUNG_SECONDS``, is read at every check: a file that is written twice within
the resolution of its timestamps looks unchanged. The time of the last change of the content (mtime) alone does not suffice, because the
owner can set it back; that of the last change of anything (ctime) shows that a file was replaced and given the former mtime.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from . import regular_file
from .tasks import RestartedTask
from .threads import DaemonThreads

_LOG = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
"""How often the files are checked."""
_YOUNG_SECONDS = 3.0
_LATE_SECONDS = 10.0
"""How long reading files may take before a line in the log says so."""
_SETTLING_SECONDS = 0.1
_MOST_SETTLING = 20
"""How often files that go on changing are read again; then they are used as they are."""

_now = time.time_ns
"""The clock that timestamps of files are compared with."""
_T = TypeVar("_T")
_Signature: TypeAlias = tuple[regular_file.Signature | None, ...]
"""The signature of each file; None for a file that can't be accessed."""


class _Reading(NamedTuple):
    """A reading of a source's files that is under way."""

    read: asyncio.Future[tuple[_Signature, Any, str] | None]
    """The result of ``_read``."""
    asked: bool
    """Whether SIGHUP requested this reading."""
    late_at: float
    """The time, by the event loop's clock, from which the reading is late."""


@dataclass(slots=True, eq=False)
class _Source:
    """A value that is read from files."""

    name: str
    files: tuple[Path, ...]
    read: Callable[[], Any]
    take: Callable[[Any], None]
    present: Any = field(repr=False)
    """The value that is in force."""
    signature: _Signature = ()
    """The signature of the files when they were last read."""
    problem: str = ""
    """Why the files can't be used (BROKEN); empty if they can (WELL)."""
    asked: bool = False
    """Whether ``Reloader.reload_now`` was called since the last reading began."""
    reading: _Reading | None = None
    """The reading that is under way."""
    threads: DaemonThreads = field(default_factory=lambda: DaemonThreads(1, "reloading"))
    """One thread for this source alone: a file that hangs blocks no other source, and is read by one reading at a time."""


class Reloader:
    """The sources of a process, and the task that reads them anew. It belongs to the event loop that starts it."""

    def __init__(self, look_seconds: float = LOOK_SECONDS) -> None:
        """Checks no file before ``start``."""
        self._seconds = look_seconds
        self.failures = 0
        """How often a line in the log said that a source's files can't be used."""
        self._sources: dict[_Source, None] = {}
        self._asked = asyncio.Event()
        self._task = RestartedTask("reading files again", self._run)

    def add(self, name: str, files: Sequence[Path], read: Callable[[], _T], take: Callable[[_T], None], present: _T) -> Callable[[], None]:
        """Adds a source, which is read anew from now on.

        Args:
            name: the source's name in messages, such as ``TLS certificate and key``.
            files: the files that hold the value.
            read: reads the value, on a thread, without side effects. Values are compared with ``!=``. If the value can't be used, it raises
                ``OSError`` or ``ValueError`` with a message that contains no secret.
            take: puts another value in force, on the event loop; it may raise the same errors as ``read``.
            present: the value that is in force.

        Returns:
            A function that removes the source.
        """
        source = _Source(name, tuple(files), read, take, present)
        self._sources[source] = None
        return lambda: self._forget(source)

    @property
    def problems(self) -> dict[str, str]:
        """Why the files of each BROKEN source can't be used, by the source's name. Safe to call from other threads."""
        return {source.name: source.problem for source in list(self._sources) if source.problem}

    def start(self) -> None:
        """Starts checking the files."""
        self._task.start()

    def reload_now(self) -> None:
        """Has all sources read at once, whether their files seem to have changed or not; a line in the log gives the result of each."""
        self._asked.set()

    async def close(self) -> None:
        """Stops checking the files, and removes all sources."""
        await self._task.stop()
        for source in list(self._sources):
            self._forget(source)

    def _forget(self, source: _Source) -> None:
        self._sources.pop(source, None)
        source.threads.shutdown(wait=False)
        if source.reading is not None:
            source.reading.read.cancel()  # the result is dropped; the thread ends when the read returns

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._asked.wait()
            asked = self._asked.is_set()
            self._asked.clear()
            if asked and not self._sources:
                _LOG.info("there are no files that could be read again")
            for source in self._sources:
                source.asked |= asked
            looks = await asyncio.gather(*map(self._look, list(self._sources)), return_exceptions=True)
            for failure in filter(None, looks):
                raise failure

    async def _look(self, source: _Source) -> None:
        """Reads a source, or waits for the reading that is under way, and takes the result. A slow result is taken by a later look."""
        loop, seconds = asyncio.get_running_loop(), 0.0
        if source.reading is None:
            read = loop.run_in_executor(source.threads, _read, source, source.asked or bool(source.problem))
            source.reading, seconds = _Reading(read, source.asked, loop.time() + _LATE_SECONDS), self._seconds
            source.asked = False
        reading = source.reading
        await asyncio.wait({reading.read}, timeout=seconds)
        if source not in self._sources:
            return
        if reading.read.done():
            source.reading = None
            self._take(source, reading.read.result(), asked=reading.asked)
        elif loop.time() >= reading.late_at:
            self._tell(source, f"reading has taken more than {_LATE_SECONDS:g} s, and continues", asked=source.asked)
            source.asked = False

    def _take(self, source: _Source, read: tuple[_Signature, Any, str] | None, *, asked: bool) -> None:
        if read is None:
            return
        source.signature, value, problem = read
        changed = not problem and value != source.present
        if changed:
            problem = _problem_of(lambda: source.take(value))
        if problem:
            self._tell(source, problem, asked=asked)
        elif changed:
            source.present = value
            _LOG.info("%s: read again from %s, and in force", source.name, _named(source.files))
        elif source.problem or asked:
            _LOG.info("%s: the content of %s is in force already", source.name, _named(source.files))
        source.problem = problem

    def _tell(self, source: _Source, problem: str, *, asked: bool) -> None:
        if asked or problem != source.problem:
            self.failures += 1
            _LOG.warning("%s: %s; the former content stays in force", source.name, _placed(problem, source.files))
        source.problem = problem


def _read(source: _Source, always: bool) -> tuple[_Signature, Any, str] | None:
    """Reads a source's files, on its thread, until they have settled.

    Returns:
        The files' signature, the value, and why it can't be used ("" if it can); None: the files are unchanged and were not read.
    """
    signature = _signatures(source.files)
    if not (always or _age(signature) < _YOUNG_SECONDS or signature != source.signature):
        return None
    value, problem = _value(source)
    for _ in range(_MOST_SETTLING):
        if (problem or value != source.present) and _age(signature) < _SETTLING_SECONDS:
            time.sleep(_SETTLING_SECONDS)
        now = _signatures(source.files)
        if now == signature:
            break
        signature = now
        value, problem = _value(source)
    return signature, value, problem


def _value(source: _Source) -> tuple[Any, str]:
    """Reads the value in a source's files; returns it, and why it can't be used ("" if it can)."""
    value: Any = None

    def read() -> None:
        nonlocal value
        value = source.read()

    problem = _problem_of(read)
    return value, problem


def _problem_of(step: Callable[[], None]) -> str:
    """Runs a step; returns why it failed, in one line, or "" if it succeeded."""
    try:
        step()
    except (OSError, ValueError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    except Exception as error:  # noqa: BLE001 (whatever a file holds, what is in force stays so)
        _LOG.debug("reading files again failed", exc_info=error)
        return type(error).__name__
    return ""


def _signatures(files: Sequence[Path]) -> _Signature:
    return tuple(map(regular_file.signature, files))


def _age(signature: _Signature) -> float:
    """The age, in seconds, of the most recent change of any of the files; the distance, too, if its timestamp lies in the future."""
    now = _now()
    return min((abs(now - moment) / 1e9 for each in signature if each is not None for moment in each[3:]), default=math.inf)


def _placed(problem: str, files: Sequence[Path]) -> str:
    """A problem, preceded by the files' names unless it names one of them itself."""
    return problem if any(str(path) in problem for path in files) else f"{_named(files)}: {problem}"


def _named(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))
