"""The base class of enums whose values the service sends."""

from __future__ import annotations

import enum
from typing import Self


class OpenEnum(enum.IntEnum):
    """An enum with the numbers of the API definition. A number that this client does not know, from a newer service, is UNSPECIFIED: 0."""

    @classmethod
    def _missing_(cls, _value: object) -> Self:
        return cls(0)
