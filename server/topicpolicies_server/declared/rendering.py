"""Documents and differences in words: one value per setting, short names of enums, units, and no secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from topicpolicies.masks import Path, format_path, parse_path, paths_between
from topicpolicies.secrets import REDACTED, is_secret
from topicpolicies.v1.policies_pb2 import PolicyDocument, Scope, TopicPolicies
from topicpolicies.values import enum_name, map_value

from ..escaping import printable
from .values import unit_of, with_unit

UNSET = "unset"
"""The text in place of the value of a field that is not set."""


def scope_name(document: PolicyDocument) -> str:
    """Returns the scope of a document: ``LOCAL`` or ``GLOBAL``."""
    return enum_name(Scope.DESCRIPTOR, document.scope)


def policies_of(document: PolicyDocument) -> TopicPolicies | None:
    """Returns the policies of a document; None: there is no document."""
    return document.policies if document.HasField("policies") else None


def printable_path(path: Path) -> str:
    """Returns a path for people: the keys of maps in it are names that others have chosen."""
    return printable(format_path(path))


def plain(message: Message, *, units: bool = False) -> dict[str, Any]:
    """Returns the fields that are set in a message as a file declares them, in the order of their names.

    ``units``: whether times and sizes have the unit that suits them; else they are numbers in the field's unit, for programs.
    """
    found: dict[str, Any] = {}
    for field, value in sorted(message.ListFields(), key=lambda item: item[0].name):
        entries = map_value(field)
        if entries is not None:
            found[field.name] = {key: _plain(entries, value[key], units=units) for key in sorted(value)}
        elif field.is_repeated:
            found[field.name] = [_plain(field, each, units=units) for each in value]
        else:
            found[field.name] = _plain(field, value, units=units)
    return found


def _plain(field: FieldDescriptor, value: Any, *, units: bool) -> Any:
    if field.message_type is not None:
        return plain(value, units=units)
    if field.enum_type is not None:
        name = enum_name(field.enum_type, value)
        return int(name) if name.isdigit() else name.lower()
    return with_unit(value, field.name) if units and type(value) is int and unit_of(field.name) and value > 0 else value


def lines(message: Message, *, raw: bool = False) -> Iterator[tuple[Path, str]]:
    """Yields the leaves that are set in a message, with their values, in the order of their names. An object without leaves is ``{}``.

    Of offload policies, values that are or may be secret are replaced by ``REDACTED``. ``raw``: as ``plain`` without ``units``.
    """
    return _leaves(plain(message, units=not raw), ())


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict) and (value or not path):
        for name, part in value.items():
            yield from _leaves(part, (*path, name))
    elif is_secret(path):
        yield path, REDACTED
    else:
        yield path, ", ".join(map(_text, value)) if isinstance(value, list) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else printable(str(value))


def compact(policies: TopicPolicies) -> str:
    """Returns a document in one line."""
    return ", ".join(f"{printable_path(path)}={value}" for path, value in lines(policies)) or "no settings"


class Difference(NamedTuple):
    """One leaf in which two documents differ."""

    path: Path
    before: str | None
    """The value as it is shown; None: the leaf is not set."""
    after: str | None

    @property
    def sign(self) -> str:
        """``+`` added, ``-`` removed, ``~`` changed."""
        if self.before is None:
            return "+"
        return "-" if self.after is None else "~"

    def json(self) -> dict[str, str | None]:
        """Returns the difference for programs."""
        return {"path": format_path(self.path), "before": self.before, "after": self.after}


def between(before: TopicPolicies | None, after: TopicPolicies | None, *, raw: bool = False) -> list[Difference]:
    """Returns the leaves in which two documents differ, in the order of their paths; with values as of ``lines``.

    An absent document has no leaves. Secrets that differ are included, and look the same before and after.
    """
    old = before if before is not None else TopicPolicies()
    new = after if after is not None else TopicPolicies()
    was, is_ = dict(lines(old, raw=raw)), dict(lines(new, raw=raw))
    found: set[Path] = set()
    for path in map(parse_path, paths_between(old, new)):
        found.update(leaf for leaf in {**was, **is_} if leaf[: len(path)] == path and (was.get(leaf) != is_.get(leaf) or leaf == path))
    return [Difference(leaf, was.get(leaf), is_.get(leaf)) for leaf in sorted(found)]


def one_line(before: TopicPolicies | None, after: TopicPolicies) -> str:
    """Returns what a change did, in one line: ``max_producer_per_topic: 5 -> 6``."""
    found = between(before, after)
    told = [f"{printable_path(each.path)}: {each.before or UNSET} -> {each.after or UNSET}" for each in found]
    return ", ".join(told) or "no settings changed"
