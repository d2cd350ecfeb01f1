"""Checks the files that a configuration names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from .. import files


def unreadable(what: str, path: Path | None) -> list[str]:
    """Returns why a file can't be read, as a sentence; empty: it can be, or none is named."""
    try:
        if path is not None:
            files.read(path, 0)
    except (OSError, ValueError) as error:
        return [f'The {what} file "{path}" can\'t be read: {getattr(error, "strerror", None) or error}.']
    return []


def misplaced(what: str, path: Path | None, data_folder: Path | None, *, folder: bool = False) -> list[str]:
    """Returns why a file or directory can't be made or used, as a sentence; empty: nothing speaks against it, or none is named.

    ``data_folder``: a directory that need not exist; every other one that the file is in has to.
    """
    if path is None:
        return []
    try:
        if folder and path.exists() and not path.is_dir():
            return [f'The {what} "{path}" is a file: name a directory.']
        if not folder and path.is_dir():
            return [f'The {what} "{path}" is a directory: name a file in it.']
        if path.parent != data_folder and not path.absolute().parent.is_dir():
            above = "above" if folder else "of"
            return [f'The directory {above} the {what} "{path}" does not exist: create it first.']
    except (OSError, ValueError) as error:  # a directory above it can't be searched, or the name is no possible one
        return [f'The {what} "{path}" can\'t be used ({getattr(error, "strerror", None) or error}): name another file.']
    return []


def shared(files: Mapping[str, Path | None]) -> list[str]:
    """Returns which of a server's files, by what they are, are the same one; a sentence each. They need not exist; None: there is none."""
    places = {what: os.path.realpath(path) for what, path in files.items() if path is not None and "\0" not in str(path)}
    return [
        f'The {first} and the {second} are both "{files[second]}": give each a file of its own.'
        for first, second in combinations(places, 2)
        if places[first] == places[second]
    ]
