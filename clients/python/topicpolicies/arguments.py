"""What callers give by a wrong type is said by its own name, before anything is sent: most of it Python would take for something else."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from .errors import InvalidArgument, Violation, invalid

_Member = TypeVar("_Member", bound=enum.Enum)
_T = TypeVar("_T")


def text(value: str, field: str) -> str:
    """A text.

    Raises:
        InvalidArgument: it is none.
    """
    if not isinstance(value, str):
        raise _wrong(f"{field} must be a text, not {value!r}.", field)
    return value


def member(value: _Member, kind: type[_Member], field: str) -> _Member:
    """A member of an enum.

    Raises:
        InvalidArgument: it is none; a name or a number are none either.
    """
    if not isinstance(value, kind):
        known = ", ".join(f"{kind.__name__}.{each.name}" for each in kind)
        raise _wrong(f"{field} must be one of {known}, not {value!r}.", field)
    return value


def several(values: Iterable[_T], field: str) -> list[_T]:
    """Several values.

    Raises:
        InvalidArgument: it is one: a text would be taken for its letters.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise _wrong(f"{field} takes a list, such as [{values!r}], not {values!r} alone.", field)
    return list(values)


def members(values: Iterable[_Member], kind: type[_Member], field: str) -> list[_Member]:
    """Several members of an enum.

    Raises:
        InvalidArgument: they are not.
    """
    return [member(value, kind, field) for value in several(values, field)]


def moment(value: datetime, field: str) -> datetime:
    """A time.

    Raises:
        InvalidArgument: it is none.
    """
    if not isinstance(value, datetime):
        raise _wrong(f"{field} must be a datetime, not {value!r}.", field)
    return value


def _wrong(problem: str, field: str) -> InvalidArgument:
    return invalid("WRONG_TYPE", Violation(field, "WRONG_TYPE", problem))
