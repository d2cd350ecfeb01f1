"""Escapes what others have written before a terminal shows it, or a line of the log quotes it."""

from __future__ import annotations


def printable(text: str) -> str:
    """Returns a text whose unprintable characters are escaped: they could move the cursor, change colours or begin a line."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
