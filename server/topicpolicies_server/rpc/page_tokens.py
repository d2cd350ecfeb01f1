"""Page tokens: the place where the next page of a listing begins, and a digest of the listing's parameters.

With a token of another listing a page would begin at an arbitrary place; the digest makes such a token invalid. A token is opaque to
clients. It is not signed, and grants nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import TypeVar

from ..core.reasons import ViolationReason
from .problems import MOST_TOKEN, Problems

_FIELD = "page_token"
_DIGITS = 16
"""Hexadecimal digits of the digest."""
_Place = TypeVar("_Place")


def bounded(token: str, problems: Problems) -> str:
    """Returns a token; "" if it is too long, which is noted in ``problems``."""
    return problems.text(token, _FIELD, MOST_TOKEN)


def write(question: object, place: str) -> str:
    """Returns the token of the page behind a place. ``question``: what the pages of a listing have in common, by its ``repr``."""
    return base64.urlsafe_b64encode((_name(question) + place).encode()).decode()


def read(question: object, token: str, place_of: Callable[[str], _Place], problems: Problems) -> _Place | None:
    """Returns the place behind which a page begins; None: the token is empty, or is not one of this listing, which is noted.

    Args:
        question: what the pages of the listing have in common, as in ``write``.
        token: the token as it was sent.
        place_of: parses a place. Raises ValueError if the text is none.
        problems: where the violation is noted.
    """
    if not (token := bounded(token, problems)):
        return None
    try:
        text = base64.urlsafe_b64decode(token.encode()).decode()
        if text.startswith(_name(question)):
            return place_of(text[_DIGITS:])
    except (ValueError, binascii.Error):
        pass
    problems.add(_FIELD, ViolationReason.MALFORMED_TOKEN, "The page token does not belong to this request: begin with the first page.")
    return None


def _name(question: object) -> str:
    return hashlib.blake2b(repr(question).encode(), digest_size=_DIGITS // 2).hexdigest()
