"""Texts and ids as bytes: ids that are UUIDs in 16 bytes each, other texts one after the other with a character between them."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

END = "\x00"
"""Stands between two texts."""
RESERVED = re.compile("[\x00-\x07]")
"""Finds what no text has that is written as it is: ``END``, and characters that may stand for texts."""
_QUOTE = "\x07"
_HEXADECIMAL = re.compile("[0-9a-f]+")
_UUIDS = re.compile("(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})+")


class Form(enum.IntEnum):
    """How ids are written."""

    TEXTS = 0
    """They are texts like others."""
    HEXADECIMAL = 1
    """Each has so many lower-case hexadecimal digits as is agreed."""
    DASHED = 2
    """Each is a UUID in its usual form, in lower case."""


def form_of(ids: Sequence[str], digits: int) -> Form:
    """The shortest form of some ids. ``digits``: of those that are hexadecimal; with 32 they may be dashed."""
    lengths = set(map(len, ids))
    if lengths == {digits}:
        return Form.HEXADECIMAL if _HEXADECIMAL.fullmatch("".join(ids)) else Form.TEXTS
    if lengths == {36} and digits == 32 and _UUIDS.fullmatch("".join(ids)):
        return Form.DASHED
    return Form.TEXTS


def is_hexadecimal(text: str, digits: int) -> bool:
    """Whether a text is so many lower-case hexadecimal digits."""
    return len(text) == digits and _HEXADECIMAL.fullmatch(text) is not None


def packed(ids: Sequence[str]) -> bytes:
    """Ids that are no ``TEXTS``: half as many bytes as they have digits."""
    return bytes.fromhex("".join(ids).replace("-", ""))


def unpacked(data: bytes, digits: int, form: Form | int) -> list[str]:
    """The ids of ``packed``; of what is cut off in an id, the last is too short."""
    text = data.hex()
    ids = [text[at : at + digits] for at in range(0, len(text), digits)]
    if form == Form.DASHED:
        return [f"{each[:8]}-{each[8:12]}-{each[12:16]}-{each[16:20]}-{each[20:]}" for each in ids]
    return ids


def quoted(texts: Sequence[str]) -> list[str]:
    """Any texts as such that have nothing ``RESERVED`` behind their first character."""
    return [_QUOTE + text.encode("utf-8", "surrogatepass").hex() if RESERVED.search(text) else text for text in texts]


def unquoted(texts: Sequence[str]) -> list[str]:
    """What was ``quoted``.

    Raises:
        ValueError: nothing was.
    """
    return [bytes.fromhex(text[1:]).decode("utf-8", "surrogatepass") if text.startswith(_QUOTE) else text for text in texts]


def joined(texts: Sequence[str]) -> bytes:
    """Texts without ``END`` as one value."""
    return END.join(texts).encode("utf-8", "surrogatepass")


def split(data: bytes) -> list[str]:
    """The texts of ``joined``; of none there is one, and it is empty.

    Raises:
        UnicodeDecodeError: nothing was joined to this.
    """
    return data.decode("utf-8", "surrogatepass").split(END)
