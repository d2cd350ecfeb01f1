"""Dataclasses that are read out of a message, each field when it is first asked for: most fields of most events never are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar


class OnDemand:
    """What a dataclass with slots is made from. A field that is not set is read from the message, and set."""

    __slots__ = ("_message",)
    _message: Any
    """Which nobody may change any more."""
    _READ: ClassVar[Mapping[str, Callable[[Any], object]]] = {}
    """How to read each field."""

    if not TYPE_CHECKING:  # else every attribute would be one

        def __getattr__(self, name: str) -> object:
            read = self._READ.get(name)
            if read is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            value = read(self._message)
            object.__setattr__(self, name, value)
            return value


def setter(kind: type, name: str) -> Callable[[object, object], None]:
    """Sets a field of a frozen dataclass with slots, for whoever makes one."""
    set_: Callable[[object, object], None] = kind.__dict__[name].__set__
    return set_
