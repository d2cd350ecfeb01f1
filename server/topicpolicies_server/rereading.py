"""What is read anew while the process goes on: certificates, keys, tokens' keys, files of permissions.

Whoever depends on a file says here how it is read, and what is done when it holds something else. The files are looked at every second,
each in a thread of its own: a disk that keeps that waiting keeps nobody else, and no other file. SIGHUP has all of them read at once
(``signals``).

What was read stays in force until something else can be read. Of each:

=======  ==========================================  =======  ==================================================================
state    event                                       next     what is done
=======  ==========================================  =======  ==================================================================
WELL     its files seem to be the same               WELL     nothing
WELL     they changed, and hold the same             WELL     nothing
WELL     they changed, and hold something else       WELL     it is taken; a line in the log
WELL     they changed, and can't be read, or taken   BROKEN   a line in the log says why, and that the old ones stay in force
any      they are read for ``_LATE_SECONDS``, and    BROKEN   a line in the log says so, once; nothing else is begun before that ends
         that goes on
BROKEN   they still can't be                         BROKEN   nothing, unless it is for another reason: a line
BROKEN   they hold something else                    WELL     it is taken; a line in the log
BROKEN   they hold what is in force                  WELL     a line in the log
any      somebody asks (SIGHUP)                      as above a line in the log in any case
=======  ==========================================  =======  ==================================================================

What somebody may still be writing is not taken: files that changed a moment ago are read again until they have been left alone for
``_SETTLING_SECONDS``, so that half of a file, which may be valid, is not in force meanwhile.

While it is BROKEN, and for ``_YOUNG_SECONDS`` after a change, it is read at every look: a file that is written twice within the grain of
its times looks the same. Of its times the one that its owner can set back (of its contents) does not suffice: the other one (of anything
about it) tells of a file that was written in its place and given the time that it had.
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
from .tasks import Kept
from .threads import DaemonThreads

_LOG = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
"""How often the files are looked at."""
_YOUNG_SECONDS = 3.0
_LATE_SECONDS = 10.0
"""How long a file may be read before that is told."""
_SETTLING_SECONDS = 0.1
_MOST_SETTLING = 20
"""How often files are read again that somebody goes on writing; then they are taken as they are."""

_now = time.time_ns
"""The time of files."""
_T = TypeVar("_T")
_Signature: TypeAlias = tuple[regular_file.Signature | None, ...]
"""Of each file its own; None for one that can't be looked at."""


class _Reading(NamedTuple):
    """Files that are being read."""

    read: asyncio.Future[tuple[_Signature, Any, str] | None]
    asked: bool
    late_at: float
    """From when on it is late, by the loop's time."""


@dataclass(slots=True, eq=False)
class _Source:
    """Something that is read from files."""

    name: str
    files: tuple[Path, ...]
    read: Callable[[], Any]
    take: Callable[[Any], None]
    present: Any = field(repr=False)
    """What is in force."""
    signature: _Signature = ()
    """Of the files when they were read last."""
    problem: str = ""
    """Why they can't be used; empty: they can (WELL)."""
    asked: bool = False
    """Whether somebody asked since they were read last."""
    reading: _Reading | None = None
    threads: DaemonThreads = field(default_factory=lambda: DaemonThreads(1, "rereading"))
    """One, of its own: a file that hangs keeps no other waiting, and is read once at a time."""


class Rereading:
    """What is read anew. It belongs to the event loop that starts it."""

    def __init__(self, look_seconds: float = LOOK_SECONDS) -> None:
        """Looks at nothing before ``start``."""
        self._seconds = look_seconds
        self.failures = 0
        """How often a line in the log said that files can't be used."""
        self._sources: dict[_Source, None] = {}
        self._asked = asyncio.Event()
        self._task = Kept("reading files anew", self._run)

    def add(self, name: str, files: Sequence[Path], read: Callable[[], _T], take: Callable[[_T], None], present: _T) -> Callable[[], None]:
        """Has something read anew from now on.

        Args:
            name: what it is, for people, such as ``TLS certificate and key``.
            files: where it stands.
            read: reads it, in a thread: it changes nothing. Values are compared. It raises ``OSError`` or ``ValueError``, in words that
                hold no secret, if it can't be used.
            take: puts another value in force, on the event loop; it may raise as ``read`` does.
            present: the value that is in force.

        Returns:
            What is to be called when it is not to be read any more.
        """
        source = _Source(name, tuple(files), read, take, present)
        self._sources[source] = None
        return lambda: self._forget(source)

    @property
    def problems(self) -> dict[str, str]:
        """What can't be used as it stands in its files now, and why; any thread may ask."""
        return {source.name: source.problem for source in list(self._sources) if source.problem}

    def start(self) -> None:
        """Looks from now on."""
        self._task.start()

    def ask(self) -> None:
        """Has everything read at once, whether it seems to have changed or not; a line in the log says of each what became of it."""
        self._asked.set()

    async def close(self) -> None:
        """Looks no more."""
        await self._task.stop()
        for source in list(self._sources):
            self._forget(source)

    def _forget(self, source: _Source) -> None:
        self._sources.pop(source, None)
        source.threads.shutdown(wait=False)
        if source.reading is not None:
            source.reading.read.cancel()  # its thread ends when it can

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._asked.wait()
            asked = self._asked.is_set()
            self._asked.clear()
            if asked and not self._sources:
                _LOG.info("there are no files that could be read anew")
            for source in self._sources:
                source.asked |= asked
            looks = await asyncio.gather(*map(self._look, list(self._sources)), return_exceptions=True)
            for failure in filter(None, looks):
                raise failure

    async def _look(self, source: _Source) -> None:
        """Takes what a source holds now, or will soon; what takes longer is taken by a later look."""
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
            self._tell(source, f"they are read for more than {_LATE_SECONDS:g} s, and that goes on", asked=source.asked)
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
            _LOG.info("%s: read anew from %s, and in force", source.name, _named(source.files))
        elif source.problem or asked:
            _LOG.info("%s: %s holds what is in force", source.name, _named(source.files))
        source.problem = problem

    def _tell(self, source: _Source, problem: str, *, asked: bool) -> None:
        if asked or problem != source.problem:
            self.failures += 1
            _LOG.warning("%s: %s; what was read before stays in force", source.name, _placed(problem, source.files))
        source.problem = problem


def _read(source: _Source, always: bool) -> tuple[_Signature, Any, str] | None:
    """The files' signature, what they hold, and why that can't be used; None: they need not be read. It runs in a thread."""
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
    """What a source's files hold, and why that can't be used."""
    value: Any = None

    def read() -> None:
        nonlocal value
        value = source.read()

    problem = _problem_of(read)
    return value, problem


def _problem_of(step: Callable[[], None]) -> str:
    """Why a step fails, in a line; empty: it does not."""
    try:
        step()
    except (OSError, ValueError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    except Exception as error:  # noqa: BLE001 (whatever a file holds, what is in force stays so)
        _LOG.debug("reading anew failed", exc_info=error)
        return type(error).__name__
    return ""


def _signatures(files: Sequence[Path]) -> _Signature:
    return tuple(map(regular_file.signature, files))


def _age(signature: _Signature) -> float:
    """How many seconds ago the youngest of files was changed, or, by its time, will be."""
    now = _now()
    return min((abs(now - moment) / 1e9 for each in signature if each is not None for moment in each[3:]), default=math.inf)


def _placed(problem: str, files: Sequence[Path]) -> str:
    """A problem and where it is, unless it says that itself."""
    return problem if any(str(path) in problem for path in files) else f"{_named(files)}: {problem}"


def _named(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))
