"""Dataclasses that read their fields from a protobuf message, each on first access: most fields of most events are never accessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar


class LazyFields:
    """The base of such a dataclass, which has slots. A field that is not set yet is read from the message on access, and then set."""

    __slots__ = ("_message",)
    _message: Any
    """The message; it must not change any more."""
    _READERS: ClassVar[Mapping[str, Callable[[Any], object]]] = {}
    """For each field that is read on access: the function that reads it from the message."""

    if not TYPE_CHECKING:  # a type checker that saw it would accept every attribute

        def __getattr__(self, name: str) -> object:
            read = self._READERS.get(name)
            if read is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            value = read(self._message)
            object.__setattr__(self, name, value)
            return value


def setter(kind: type, name: str) -> Callable[[object, object], None]:
    """Returns a function that sets a field of a frozen dataclass with slots, for the code that makes its instances."""
    set_: Callable[[object, object], None] = kind.__dict__[name].__set__
    return set_
