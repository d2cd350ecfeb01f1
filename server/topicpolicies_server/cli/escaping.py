"""Escapes what comes from others before it is shown on a terminal: names, texts, and the keys in paths."""

from __future__ import annotations

from topicpolicies.masks import Path, format_path


def printable(text: str) -> str:
    """Returns a text whose unprintable characters are escaped: they could move the cursor, change colours or begin a line."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def printable_path(path: Path) -> str:
    """Returns a path for people: ``format_path``, with unprintable characters of the keys of maps escaped."""
    return printable(format_path(path))
