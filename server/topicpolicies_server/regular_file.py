"""Reads files of a configuration: only regular ones. A pipe would keep whoever opens it waiting until somebody writes."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TypeAlias

Signature: TypeAlias = tuple[int, int, int, int, int]
"""Of a file its device, number, size, and when its contents, and anything about it, changed (ns)."""
_AT_ONCE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read(path: Path, most: int = -1) -> bytes:
    """What a file holds.

    Args:
        path: of the file.
        most: bytes that are read of it; -1: all.

    Raises:
        OSError: it can't be read, or is no regular file.
        ValueError: its name can't be one.
    """
    with open(path, "rb", opener=_opened) as file:
        return file.read(most)


def checked(path: Path) -> Path:
    """A file, for a library that opens it itself.

    Raises:
        OSError: it can't be looked at, or is no regular file.
    """
    _check(path.stat(), path)
    return path


def signature(path: Path) -> Signature | None:
    """What is another one when a file was written since; None: it can't be looked at."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _opened(path: str, _flags: int) -> int:
    opened = os.open(path, _AT_ONCE)  # a pipe that nobody writes opens at once
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
        raise OSError(errno.EINVAL, "It is no regular file", str(path))
