"""Files of a configuration: reads regular ones only (opening a pipe would block), and reads them anew while the process runs.

A *source* is a value that is read from files, such as a certificate and its key, or from those of a folder. Each is checked on a thread of
its own, so a disk that hangs blocks neither the event loop nor other sources. SIGHUP has all sources read as soon as two looks agree.

A value stays in force until another one can be read and put in force. Half of a file may be valid, so files are read when they have not
changed since the look before, nor while they were read. Whether a file has changed is seen by its ctime too, because a file's owner can set
its mtime back.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import stat
import threading
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

_LOG = logging.getLogger(__name__)
LOOK_SECONDS = 0.5
"""How often the files are checked."""
_SETTLING_SECONDS = 0.1
"""The same, from SIGHUP until they are read."""

Signature: TypeAlias = tuple[int, int, int, int, int]
"""A file's device, inode number, size, and the times (ns) when its content (mtime) and anything about it (ctime) last changed."""
_AT_ONCE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_T = TypeVar("_T")


def read(path: Path, most: int = -1) -> bytes:
    """Reads a file. ``most``: how many bytes to read at the most; -1: all.

    Raises:
        OSError: the file can't be read, or is not a regular file.
        ValueError: the path can't be one (it contains a null character).
    """
    with open(path, "rb", opener=_opened) as file:
        return file.read(most)


def toml(text: str) -> dict[str, Any]:
    """Parses a file's TOML. A byte order mark, which some editors write at the beginning, is ignored.

    Raises:
        ValueError: the text is no TOML, or is nested too deep.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def checked(path: Path) -> Path:
    """Returns ``path`` if a regular file is there, for a library that opens files itself.

    Raises:
        OSError: the file can't be accessed, or is not a regular file.
    """
    _check(path.stat(), path)
    return path


def signature(path: Path) -> Signature | None:
    """Returns a value that changes whenever the file is written; None if the file can't be accessed."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _opened(path: str, _flags: int) -> int:
    opened = os.open(path, _AT_ONCE)  # with O_NONBLOCK even a pipe without a writer opens at once
    try:
        _check(os.fstat(opened), path)
    except OSError:
        os.close(opened)
        raise
    return opened


def _check(found: os.stat_result, path: str | Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "It is not a regular file", str(path))


# --- reading again ----------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Source:
    name: str
    files: tuple[Path, ...]
    read: Callable[[], Any]
    take: Callable[[Any], None]
    present: Any = field(repr=False)
    """The value that is in force."""
    problem: str = ""
    """Why the files can't be used; empty if they can."""
    asked: threading.Event = field(default_factory=threading.Event)
    """Set when the files are to be read at once."""
    removed: bool = False

    @property
    def names(self) -> str:
        """The names of the files."""
        return ", ".join(map(str, self.files))

    def signatures(self) -> tuple[Signature | None, ...]:
        """The signatures of the files as they are now, and of the files in those that are folders."""
        found = []
        for path in self.files:
            found.append(signature(path))
            with contextlib.suppress(OSError):  # it is no folder
                found += map(signature, sorted(path.iterdir()))
        return tuple(found)


class Reloader:
    """The sources of a process. It belongs to the event loop that starts it."""

    def __init__(self, look_seconds: float = LOOK_SECONDS) -> None:
        """Checks no file before ``start``."""
        self._seconds = look_seconds
        self._sources: list[_Source] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, name: str, files: Sequence[Path], read: Callable[[], _T], take: Callable[[_T], None], present: _T) -> None:
        """Adds a source, which is read anew from now on.

        Args:
            name: the source's name in messages, such as ``TLS certificate and key``.
            files: the files that hold the value.
            read: reads the value, on a thread, without side effects. Values are compared with ``!=``. If the value can't be used, it raises
                ``OSError`` or ``ValueError`` with a message that contains no secret.
            take: puts another value in force, on the event loop; it may raise the same errors as ``read``.
            present: the value that is in force.
        """
        source = _Source(name, tuple(files), read, take, present)
        self._sources.append(source)
        if self._loop is not None:
            self._begin(source, self._loop)

    def follow(self, name: str, path: Path, parse: Callable[[bytes], _T], take: Callable[[_T], None]) -> None:
        """Puts the content of a file in force, and does so again whenever it changes.

        ``name`` and ``take``: as in ``add``; ``parse`` returns what the bytes of the file hold, as ``read`` of ``add``.

        Raises:
            RuntimeError: the file can't be used; the text is a sentence.
        """

        def current() -> _T:
            return parse(read(path))

        try:
            present = current()
        except (OSError, ValueError) as error:
            raise RuntimeError(f'"{path}" can\'t be used as {name}: {getattr(error, "strerror", None) or error}') from error
        take(present)
        self.add(name, (path,), current, take, present)

    @property
    def problems(self) -> dict[str, str]:
        """Why the files of each source that has a problem can't be used, by the source's name. Safe to call from other threads."""
        return {source.name: source.problem for source in list(self._sources) if source.problem}

    def start(self) -> None:
        """Starts checking the files."""
        self._loop = asyncio.get_running_loop()
        for source in self._sources:
            self._begin(source, self._loop)

    def reload_now(self) -> None:
        """Has all sources read at once, whether their files seem to have changed or not; a line in the log gives the result of each."""
        if not self._sources:
            _LOG.info("there are no files that could be read again")
        for source in self._sources:
            source.asked.set()

    async def close(self) -> None:
        """Stops checking the files, and removes all sources."""
        for source in self._sources:
            source.removed = True
            source.asked.set()
        self._sources.clear()

    def _begin(self, source: _Source, loop: asyncio.AbstractEventLoop) -> None:
        threading.Thread(target=self._follow, args=(source, loop), name=f"reloading {source.name}", daemon=True).start()

    def _follow(self, source: _Source, loop: asyncio.AbstractEventLoop) -> None:
        """Reads a source whenever its files have changed, on its thread, until it is removed."""
        present: tuple[Signature | None, ...] = ()
        used, asked = present, False
        while True:
            asked = source.asked.wait(_SETTLING_SECONDS if asked else self._seconds) or asked
            source.asked.clear()
            if source.removed:
                return
            before, present = present, source.signatures()
            if present != before or (not asked and present == used and not source.problem):
                continue
            value, problem = None, ""
            try:
                value = source.read()
            except Exception as error:  # noqa: BLE001 (whatever a file holds, what is in force stays so)
                problem = _in_words(error)
            if source.signatures() != present:
                continue
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody uses the value any more
                loop.call_soon_threadsafe(self._use, source, value, problem, asked)
            used, asked = present, False

    def _use(self, source: _Source, value: Any, problem: str, at_request: bool) -> None:
        if source.removed:
            return
        changed = not problem and value != source.present
        if changed:
            try:
                source.take(value)
            except Exception as error:  # noqa: BLE001 (as above)
                problem = _in_words(error)
        if problem:
            if at_request or problem != source.problem:
                placed = problem if any(str(path) in problem for path in source.files) else f"{source.names}: {problem}"
                _LOG.warning("%s: %s; the former content stays in force", source.name, placed.removesuffix("."))
        elif changed:
            source.present = value
            _LOG.info("%s: read again from %s, and in force", source.name, source.names)
        elif source.problem or at_request:
            _LOG.info("%s: the content of %s is in force already", source.name, source.names)
        source.problem = problem


def _in_words(error: Exception) -> str:
    """Why files can't be used, in one line. The text of an error that is not foreseen may hold a secret."""
    if isinstance(error, (OSError, ValueError)):
        return " ".join(str(error).split()) or type(error).__name__
    _LOG.debug("reading files again failed", exc_info=error)
    return type(error).__name__
