"""Checks the files that a configuration names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from .. import regular_file

_BESIDE = ("-wal", "-shm", "-journal", "-mark", ".lock")
"""What is appended to a file's name for those that stand beside it: SQLite's, the embedded log's mark, and the file of the lock."""


def unreadable(what: str, path: Path) -> list[str]:
    """Returns why a file can't be read, as a sentence; empty: it can be."""
    try:
        regular_file.read(path, 0)
    except (OSError, ValueError) as error:
        return [f'The {what} file "{path}" can\'t be read: {getattr(error, "strerror", None) or error}.']
    return []


def misplaced(what: str, path: Path, *, create_parent: bool, folder: bool = False) -> list[str]:
    """Returns why a file or directory can't be made or used, as a sentence; empty: nothing speaks against it.

    Args:
        what: what the file is, for the sentence.
        path: the file, which need not exist.
        create_parent: whether the directory above it need not exist either.
        folder: whether it is a directory.
    """
    try:
        if folder and path.exists() and not path.is_dir():
            return [f'The {what} "{path}" is a file: name a directory.']
        if not folder and path.is_dir():
            return [f'The {what} "{path}" is a directory: name a file in it.']
        if not create_parent and not path.absolute().parent.is_dir():
            above = "above" if folder else "of"
            return [f'The directory {above} the {what} "{path}" does not exist: create it first.']
    except (OSError, ValueError) as error:  # a directory above it can't be searched, or the name is no possible one
        return [f'The {what} "{path}" can\'t be used ({getattr(error, "strerror", None) or error}): name another file.']
    return []


def shared(files: Mapping[str, Path | None]) -> list[str]:
    """Returns which of a server's files are the same one, or would be taken for one that stands beside another; a sentence each.

    Args:
        files: the files by what they are, for the sentence; they need not exist. None: there is no such file.
    """
    found = []
    possible = {what: path for what, path in files.items() if path is not None and "\0" not in str(path)}
    places = {what: (path, Path(os.path.realpath(path))) for what, path in possible.items()}
    for (first, (path, place)), (second, (other, there)) in combinations(places.items(), 2):
        if place == there:
            found.append(f'The {first} and the {second} are both "{other}": give each a file of its own.')
        for what, of, one, beside, name in ((first, second, place, there, other), (second, first, there, place, path)):
            if beside.parent == one.parent and beside.name in [one.name + ending for ending in _BESIDE]:
                found.append(f'The {of} "{name}" would be a file of the {what}: give it another name.')
    return found
