"""Checks of the server's own files: whether their folders can be written, and whether the disk has room for their growth."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

from ...config import EmbeddedLogConfig, ServerConfig
from .checks import Check, Finding, failed, in_thread, ok, skipped, warning

_LEAST_BYTES = 64 << 20
"""With less free space than this a check fails: SQLite's write-ahead log alone may need a part of it."""
_WARNED_BYTES = 1 << 30
_FULL = 0.9
_MEGABYTE = 1 << 20


class Facts(NamedTuple):
    """What was found about a file and its disk."""

    problem: str
    """Why the file or its folder can't be written; empty: both can."""
    size: int
    """The size of the file in bytes; 0: there is none."""
    free: int
    """How many bytes of the disk this user may still write."""


def facts_of(path: Path, *, made: bool) -> Facts:
    """Examines a file and its disk.

    Args:
        path: the file, or the directory with the files, which need not exist.
        made: whether the server makes the file's folder, so that it need not exist either.
    """
    folder = path if path.is_dir() else path.parent
    while made and not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        disk = os.statvfs(folder)
        free = disk.f_bavail * disk.f_frsize
        size = sum(each.stat().st_size for each in (path.iterdir() if path.is_dir() else [path]) if each.exists())
    except OSError as error:
        return Facts(f"{folder}: {error.strerror}", 0, 0)
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0")
    except OSError as error:
        return Facts(f"{folder}: {error.strerror}", size, free)
    if size and not os.access(path, os.R_OK | os.W_OK):
        return Facts(f"{path} can't be written", size, free)
    return Facts("", size, free)


def judged_folder(found: Facts) -> Finding:
    """Judges whether a file and its folder can be written."""
    return failed(found.problem) if found.problem else ok()


def judged_room(found: Facts, most: int | None) -> Finding:
    """Judges whether there is room for a file to grow; ``most``: its greatest size in bytes; None: it is not bounded."""
    told = f"{found.size / _MEGABYTE:,.0f} MiB, {found.free / _MEGABYTE:,.0f} MiB are free"
    if found.free < _LEAST_BYTES:
        return failed(told)
    if most is not None and most - found.size > found.free:
        return warning(f"{told}, and it may grow to {most / _MEGABYTE:,.0f} MiB")
    return warning(told) if most is None and found.free < _WARNED_BYTES else ok(told)


def judged_bound(found: Facts, most: int) -> Finding:
    """Judges how near the history is to the size beyond which its oldest entries are dropped."""
    share = found.size / most
    told = f"{share:.0%} of {most / _MEGABYTE:,.0f} MiB"
    return warning(f"{told}: the oldest entries are deleted") if share >= _FULL else ok(told)


def disk(config: ServerConfig) -> list[Check]:
    """Returns the checks of the files of a server that runs, or is to run, on this machine."""
    files: list[tuple[str, Path, bool, int | None]] = []
    if isinstance(config.log, EmbeddedLogConfig) and config.log.path is not None:
        files.append(("log", config.log.path, config.log.path.parent == config.data_folder, None))
    if config.history is not None:
        files.append(("history", config.history.path, config.history.path.parent == config.data_folder, config.history.megabytes << 20))
    if config.checkpoints is not None:
        files.append(("checkpoints", config.checkpoints.path, config.checkpoints.path.parent == config.data_folder, None))
    found = [check for each in files for check in _of_file(*each)]
    if config.history is None:
        found.append(_no_history())
    return found


def _no_history() -> Check:
    async def run() -> Finding:
        return skipped("the server keeps no history: --history FILE.db")

    return Check(name="disk.history", holds="the history can be kept", why="It records who changed what.", run=run, remedy="")


def _of_file(name: str, path: Path, made: bool, most: int | None) -> list[Check]:
    async def facts() -> Facts:
        return await in_thread(lambda: facts_of(path, made=made))

    async def folder() -> Finding:
        found = judged_folder(await facts())
        full = os.strerror(errno.ENOSPC) in found.told
        return found._replace(remedy=f"Make room on the disk of {path.parent}.") if full else found

    async def room() -> Finding:
        return judged_room(await facts(), most)

    async def bound() -> Finding:
        return judged_bound(await facts(), most or 1)

    checks = [
        Check(
            name=f"disk.{name}",
            holds=f"the {name} can be written",
            why="A server that can't write its files does not start, or stops recording.",
            run=folder,
            remedy=f"Mount the disk for writing, give the server's user the folder {path.parent}, or name another file: --{_FLAGS[name]}.",
        ),
        Check(
            name=f"disk.{name}_room",
            holds=f"there is room for the {name}",
            why="On a full disk changes are refused, and the history has gaps.",
            run=room,
            remedy=f"Make room on the disk of {path.parent}" + (", or lower --history-megabytes." if most is not None else "."),
            needs=(f"disk.{name}",),
        ),
    ]
    if most is not None:
        why = "At the bound the oldest entries are deleted before their time (--history-days)."
        checks.append(
            Check(
                name=f"disk.{name}_bound",
                holds="the history is well below its bound",
                why=why,
                run=bound,
                remedy="Raise --history-megabytes, or lower --history-days.",
                needs=(f"disk.{name}",),
            )
        )
    return checks


_FLAGS = {"log": "data", "history": "history", "checkpoints": "checkpoints"}
