"""Lists of texts, encoded as bytes: hexadecimal ids in half as many bytes (a UUID takes 16), other texts joined by a separator."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

END = "\x00"
"""The separator of joined texts."""
RESERVED = re.compile("[\x00-\x07]")
"""Characters that a text must not contain when it is joined: ``END``, and those that encoders use as stand-ins for texts."""
_QUOTE = "\x07"
_HEXADECIMAL = re.compile("[0-9a-f]+")
_UUIDS = re.compile("(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})+")


class Form(enum.IntEnum):
    """How a list of ids is encoded."""

    TEXTS = 0
    """As texts, like any others."""
    HEXADECIMAL = 1
    """As bytes; each id has the agreed number of lower-case hexadecimal digits."""
    DASHED = 2
    """As bytes; each id is a lower-case UUID with dashes."""


def form_of(ids: Sequence[str], digits: int) -> Form:
    """Returns the shortest form for some ids. ``digits``: how many a hexadecimal id has; with 32, UUIDs with dashes are recognized too."""
    lengths = set(map(len, ids))
    if lengths == {digits}:
        return Form.HEXADECIMAL if _HEXADECIMAL.fullmatch("".join(ids)) else Form.TEXTS
    if lengths == {36} and digits == 32 and _UUIDS.fullmatch("".join(ids)):
        return Form.DASHED
    return Form.TEXTS


def is_hexadecimal(text: str, digits: int) -> bool:
    """Returns whether a text consists of exactly ``digits`` lower-case hexadecimal digits."""
    return len(text) == digits and _HEXADECIMAL.fullmatch(text) is not None


def packed(ids: Sequence[str]) -> bytes:
    """Encodes ids of the form HEXADECIMAL or DASHED, two digits in a byte."""
    return bytes.fromhex("".join(ids).replace("-", ""))


def unpacked(data: bytes, digits: int, form: Form | int) -> list[str]:
    """Decodes what ``packed`` encoded. If the data ends within an id, the last id is too short."""
    text = data.hex()
    ids = [text[at : at + digits] for at in range(0, len(text), digits)]
    if form == Form.DASHED:
        return [f"{each[:8]}-{each[8:12]}-{each[12:16]}-{each[16:20]}-{each[20:]}" for each in ids]
    return ids


def quoted(texts: Sequence[str]) -> list[str]:
    """Encodes each text that has a ``RESERVED`` character as ``_QUOTE`` and hexadecimal digits; leaves the others as they are."""
    return [_QUOTE + text.encode("utf-8", "surrogatepass").hex() if RESERVED.search(text) else text for text in texts]


def unquoted(texts: Sequence[str]) -> list[str]:
    """Decodes what ``quoted`` encoded.

    Raises:
        ValueError: a text has ``_QUOTE`` in front, and ``quoted`` did not make it.
    """
    return [bytes.fromhex(text[1:]).decode("utf-8", "surrogatepass") if text.startswith(_QUOTE) else text for text in texts]


def joined(texts: Sequence[str]) -> bytes:
    """Joins texts that do not contain ``END`` to one value."""
    return END.join(texts).encode("utf-8", "surrogatepass")


def split(data: bytes) -> list[str]:
    """Splits what ``joined`` returned. For an empty list of texts, that is one empty text.

    Raises:
        UnicodeDecodeError: ``joined`` did not make this.
    """
    return data.decode("utf-8", "surrogatepass").split(END)
