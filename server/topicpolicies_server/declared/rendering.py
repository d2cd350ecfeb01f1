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
from .values import with_unit

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


def lines(message: Message, above: Path = (), *, raw: bool = False) -> Iterator[tuple[Path, str]]:
    """Yields the leaves that are set in a message, with their values, in the order of their names. An object without leaves is ``{}``.

    ``raw``: whether times and sizes are numbers in the field's unit, for programs; else they have the unit that suits them.
    """
    fields = sorted(message.ListFields(), key=lambda item: item[0].name)
    if above and not fields:
        yield above, "{}"
    for field, value in fields:
        path, entries = (*above, field.name), map_value(field)
        parts = [(path, value)] if entries is None else [((*path, key), value[key]) for key in sorted(value)]
        for at, part in parts:
            if (entries or field).message_type is not None:
                yield from lines(part, at, raw=raw)
            else:
                yield at, _shown(at, entries or field, part, raw=raw)


def _shown(path: Path, field: FieldDescriptor, value: Any, *, raw: bool) -> str:
    """Returns a value as it is shown; of offload policies, values that are or may be secret are replaced by ``REDACTED``."""
    if is_secret(path):
        return REDACTED
    return ", ".join(_single(field, each, raw=raw) for each in value) if field.is_repeated else _single(field, value, raw=raw)


def _single(field: FieldDescriptor, value: Any, *, raw: bool) -> str:
    if field.enum_type is not None:
        return enum_name(field.enum_type, value).lower()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and not raw:
        return with_unit(value, field.name)
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
