"""The paths of settings for people: the keys of maps in them are names that others have chosen."""

from __future__ import annotations

from topicpolicies.masks import Path, format_path

from ...escaping import printable


def printable_path(path: Path) -> str:
    """Returns a path for people: ``format_path``, with unprintable characters of the keys of maps escaped."""
    return printable(format_path(path))
