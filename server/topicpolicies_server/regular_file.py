"""Reads configuration files, and only regular ones: opening a pipe would block until another process writes to it."""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, TypeAlias

Signature: TypeAlias = tuple[int, int, int, int, int]
"""A file's device, inode number, size, and the times (ns) when its content (mtime) and anything about it (ctime) last changed."""
_AT_ONCE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


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
