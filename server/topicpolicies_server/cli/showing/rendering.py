"""Documents for people: one value per setting, short names of enums, and no secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from rich.console import Console

from topicpolicies.masks import Path, parse_path, paths_between
from topicpolicies.secrets import REDACTED, is_secret
from topicpolicies.v1.policies_pb2 import PolicyDocument, Scope, TopicPolicies
from topicpolicies.values import enum_name, map_value

from ...escaping import printable
from .paths import printable_path

UNSET = "unset"
"""The text in place of the value of a field that is not set."""


def console(*, stderr: bool = False) -> Console:
    """Returns a console without highlighting and markup: names and values come from outside, and must not be interpreted."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = 10_000  # a program reads the lines, and needs them unbroken
    return made


def scope_name(document: PolicyDocument) -> str:
    """Returns the scope of a document: ``LOCAL`` or ``GLOBAL``."""
    return enum_name(Scope.DESCRIPTOR, document.scope)


def policies_of(document: PolicyDocument) -> TopicPolicies | None:
    """Returns the policies of a document; None: there is no document."""
    return document.policies if document.HasField("policies") else None


def lines(message: Message, above: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yields the leaves that are set in a message, with their values, in the order of their names. An object without leaves is ``{}``."""
    for field, value in sorted(message.ListFields(), key=lambda item: item[0].name):
        path = (*above, field.name)
        entries = map_value(field)
        if entries is not None:
            for key in sorted(value):
                if entries.message_type is None:
                    yield (*path, key), shown((*path, key), entries, value[key])
                else:
                    yield from _object(value[key], (*path, key))
        elif field.message_type is not None:
            yield from _object(value, path)
        else:
            yield path, shown(path, field, value)


def _object(message: Message, path: Path) -> Iterator[tuple[Path, str]]:
    if message.ListFields():
        yield from lines(message, path)
    else:
        yield path, "{}"


def shown(path: Path, field: FieldDescriptor, value: Any) -> str:
    """Returns a value as it is shown; of offload policies, values that are or may be secret are replaced by ``REDACTED``."""
    if is_secret(path):
        return REDACTED
    if field.is_repeated:
        return ", ".join(_single(field, each) for each in value)
    return _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> str:
    if field.enum_type is not None:
        return enum_name(field.enum_type, value).lower()
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else printable(str(value))


def compact(policies: TopicPolicies) -> str:
    """Returns a document in one line."""
    return ", ".join(f"{printable_path(path)}={value}" for path, value in lines(policies)) or "no settings"


def changes(before: TopicPolicies | None, after: TopicPolicies | None) -> list[tuple[Path, str | None, str | None]]:
    """Returns the leaves in which two documents differ, in the order of their paths, with the value before and after.

    Values are as they are shown; None: the leaf is not set. An absent document has no leaves. Secrets that differ are included, and look
    the same before and after.
    """
    old = before if before is not None else TopicPolicies()
    new = after if after is not None else TopicPolicies()
    was, is_ = dict(lines(old)), dict(lines(new))
    found: set[Path] = set()
    for path in map(parse_path, paths_between(old, new)):
        found.update(leaf for leaf in {**was, **is_} if leaf[: len(path)] == path and (was.get(leaf) != is_.get(leaf) or leaf == path))
    return [(leaf, was.get(leaf), is_.get(leaf)) for leaf in sorted(found)]


def differences(before: TopicPolicies | None, after: TopicPolicies) -> str:
    """Returns what a change did, in one line: ``max_producer_per_topic: 5 -> 6``."""
    parts = (
        f"{printable_path(leaf)}: {UNSET if was is None else was} -> {UNSET if is_ is None else is_}"
        for leaf, was, is_ in changes(before, after)
    )
    return ", ".join(parts) or "no settings changed"
