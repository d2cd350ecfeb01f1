"""Checks the files that a configuration names."""

from __future__ import annotations

from pathlib import Path

from .. import regular_file


def unreadable(what: str, path: Path) -> list[str]:
    """Returns why a file can't be read, as a sentence; empty: it can be."""
    try:
        regular_file.read(path, 0)
    except (OSError, ValueError) as error:
        return [f'The {what} file "{path}" can\'t be read: {getattr(error, "strerror", None) or error}.']
    return []


def misplaced(what: str, path: Path, *, create_parent: bool) -> list[str]:
    """Returns why a file can't be made or used, as a sentence; empty: nothing speaks against it.

    Args:
        what: what the file is, for the sentence.
        path: the file, which need not exist.
        create_parent: whether its directory need not exist either.
    """
    try:
        if path.is_dir():
            return [f'The {what} "{path}" is a directory: name a file in it.']
        if not create_parent and not path.absolute().parent.is_dir():
            return [f'The directory of the {what} "{path}" does not exist: create it first.']
    except (OSError, ValueError) as error:  # a directory above it can't be searched, or the name is no possible one
        return [f'The {what} "{path}" can\'t be used ({getattr(error, "strerror", None) or error}): name another file.']
    return []
