"""Resume tokens: where a watch stands in a namespace, as a text that is opaque to clients. It is not signed, and grants nothing.

A position in the history (``WatchHistory``) is the number of an entry in this server's record, in digits of fixed width so that string
order is the order of the record, and behind it such a token: another server that follows the same log goes on from that.
"""

from __future__ import annotations

import base64
from functools import lru_cache

from ..core.reading.tokens import Token

NOTHING_READ = Token("", (), "*")
"""The place of a client that sees nothing of a namespace's log, because its topic policies are disabled. A watch that resumes from it
begins anew."""
MOST_TOKEN = 65_536
"""The most characters of a token: a log may have 1,024 partitions."""
_FORM = "1"
_DIGITS = 16


@lru_cache(256)
def write(token: Token) -> str:
    """Returns a token as a text; "" if it would be longer than ``MOST_TOKEN``."""
    content = "\0".join((_FORM, token.left_out, token.log, *token.positions))
    text = base64.urlsafe_b64encode(content.encode()).decode()
    return text if len(text) <= MOST_TOKEN else ""


def read(text: str) -> Token:
    """Reads a token.

    Raises:
        ValueError: the text is none.
    """
    if len(text) <= MOST_TOKEN:
        form, left_out, log, *positions = base64.b64decode(text, b"-_", validate=True).decode().split("\0")
        if form == _FORM:
            return Token(log, tuple(positions), left_out)
    raise ValueError("not a token of this service")


def write_position(number: int, token: Token) -> str:
    """Returns the position behind an entry of the history; ``number`` 0: before every entry."""
    return f"{number:0{_DIGITS}x}{write(token)}"


def read_position(text: str) -> Token:
    """Returns the place of a position in the log.

    Raises:
        ValueError: the text is no position.
    """
    int(text[:_DIGITS], 16)
    return read(text[_DIGITS:])
