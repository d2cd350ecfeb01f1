"""Text for terminals: what others have written is escaped before one shows it, or a line of the log quotes it; long lines are folded."""

from __future__ import annotations

import shutil
import textwrap
from typing import TextIO


def printable(text: str) -> str:
    """Returns a text whose unprintable characters are escaped: they could move the cursor, change colours or begin a line."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def width_of(stream: TextIO) -> int:
    """Returns the width of the terminal to which a stream goes, in columns; 0: it goes to none."""
    return shutil.get_terminal_size().columns if stream.isatty() else 0


def folded(text: str, width: int, indent: str = "") -> str:
    """Returns a text whose lines are broken between words where they are wider than ``width``; 0: the text as it is.

    ``indent``: stands before what follows a break.
    """
    if not width:
        return text
    return "\n".join(
        line if len(line) <= width else textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )
