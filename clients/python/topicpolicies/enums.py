"""What the enums of answers have in common."""

from __future__ import annotations

import enum
from typing import Self


class OpenEnum(enum.IntEnum):
    """An enum with the numbers of the definition's. A number that this client does not know, a newer service's, is UNSPECIFIED: 0."""

    @classmethod
    def _missing_(cls, _value: object) -> Self:
        return cls(0)
