"""Page tokens: where the next page of an answer begins, and which question it answers.

A token of another question would begin anywhere, so each names its own. It is opaque to clients, and proves nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import TypeVar

from ..core.reasons import Reason
from .problems import MOST_TOKEN, Problems

_FIELD = "page_token"
_DIGITS = 16
"""Of what names the question."""
_Place = TypeVar("_Place")


def bounded(token: str, problems: Problems) -> str:
    """A token that is not too long; "" if there is a problem."""
    return problems.text(token, _FIELD, MOST_TOKEN)


def write(question: object, place: str) -> str:
    """The token of the page behind a place. ``question``: what is asked, whatever the page; its ``repr`` tells it from others."""
    return base64.urlsafe_b64encode((_name(question) + place).encode()).decode()


def read(question: object, token: str, place_of: Callable[[str], _Place], problems: Problems) -> _Place | None:
    """The place behind which a page begins; None if the token is none of an answer to this question, which is noted.

    Args:
        question: what is asked.
        token: as it was sent.
        place_of: makes a place of its text. Raises ValueError if it is none.
        problems: where problems are noted.
    """
    if not (token := bounded(token, problems)):
        return None
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode()
        if text.startswith(_name(question)):
            return place_of(text[_DIGITS:])
    except (ValueError, binascii.Error):
        pass
    problems.add(_FIELD, Reason.MALFORMED_TOKEN, "The page token is not one of an answer to this question: begin with the first page.")
    return None


def _name(question: object) -> str:
    return hashlib.blake2b(repr(question).encode(), digest_size=_DIGITS // 2).hexdigest()
