"""What is wrong with files that a configuration names."""

from __future__ import annotations

from pathlib import Path

from .. import regular_file


def unreadable(what: str, path: Path) -> list[str]:
    """Why a file can't be read; empty if it can."""
    try:
        regular_file.read(path, 0)
    except (OSError, ValueError) as error:
        return [f'The {what} file "{path}" can\'t be read: {getattr(error, "strerror", None) or error}.']
    return []


def misplaced(what: str, path: Path, *, make_folder: bool) -> list[str]:
    """Why a file can't be made, or used if it is there; empty if it seems that it can.

    Args:
        what: the subject of the sentence.
        path: the file.
        make_folder: whether its directory need not be there yet.
    """
    try:
        if path.is_dir():
            return [f'The {what} "{path}" is a directory: name a file in it.']
        if not make_folder and not path.absolute().parent.is_dir():
            return [f'The directory of the {what} "{path}" does not exist: create it first.']
    except (OSError, ValueError) as error:  # a directory above it may not be looked into, or its name can't be one
        return [f'The {what} "{path}" can\'t be used ({getattr(error, "strerror", None) or error}): name another file.']
    return []
