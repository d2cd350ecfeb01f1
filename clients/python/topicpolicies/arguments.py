"""Checks the types of arguments before anything is sent, and names the argument that is wrong: Python would misread most of these."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from .errors import InvalidArgument, Violation, invalid

_Member = TypeVar("_Member", bound=enum.Enum)
_T = TypeVar("_T")


def text(value: str, field: str) -> str:
    """Returns the value of the argument ``field``, if it is a text.

    Raises:
        InvalidArgument: it is not.
    """
    return _checked(value, str, "a text", field)


def optional_text(value: str | None, field: str) -> str:
    """Returns the value of the argument ``field``, if it is a text; None is an empty one.

    Raises:
        InvalidArgument: it is neither.
    """
    return "" if value is None else text(value, field)


def whole(value: int, field: str) -> int:
    """Returns the value of the argument ``field``, if it is a whole number.

    Raises:
        InvalidArgument: it is not.
    """
    return _checked(value, int, "a whole number", field)


def instance(value: _T, kind: type, field: str) -> _T:
    """Returns the value of the argument ``field``, if it is an instance of ``kind``.

    Raises:
        InvalidArgument: it is not.
    """
    return _checked(value, kind, f"a {kind.__name__}", field)


def member(value: _Member, kind: type[_Member], field: str) -> _Member:
    """Returns the value of the argument ``field``, if it is a member of the enum ``kind``.

    Raises:
        InvalidArgument: it is not; a member's name or number does not do.
    """
    if not isinstance(value, kind):
        known = ", ".join(f"{kind.__name__}.{each.name}" for each in kind)
        raise _wrong(f"{field} must be one of {known}, not {value!r}.", field)
    return value


def several(values: Iterable[_T], field: str) -> list[_T]:
    """Returns the values of the argument ``field`` as a list.

    Raises:
        InvalidArgument: a single value was given; of a text, the characters would be taken for the values.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise _wrong(f"{field} takes a list, such as [{values!r}], not {values!r} alone.", field)
    return list(values)


def texts(values: Iterable[str], field: str) -> list[str]:
    """Returns the values of the argument ``field`` as a list, if they are texts.

    Raises:
        InvalidArgument: they are not.
    """
    return [text(value, field) for value in several(values, field)]


def members(values: Iterable[_Member], kind: type[_Member], field: str) -> list[_Member]:
    """Returns the values of the argument ``field`` as a list, if they are members of the enum ``kind``.

    Raises:
        InvalidArgument: they are not.
    """
    return [member(value, kind, field) for value in several(values, field)]


def moment(value: datetime, field: str) -> datetime:
    """Returns the value of the argument ``field``, if it is a ``datetime``.

    Raises:
        InvalidArgument: it is not.
    """
    if not isinstance(value, datetime):
        raise _wrong(f"{field} must be a datetime, not {value!r}.", field)
    return value


def _checked(value: _T, kind: type, what: str, field: str) -> _T:
    if not isinstance(value, kind):
        raise _wrong(f"{field} must be {what}, not {value!r}.", field)
    return value


def _wrong(problem: str, field: str) -> InvalidArgument:
    return invalid("WRONG_TYPE", Violation(field, "WRONG_TYPE", problem))
