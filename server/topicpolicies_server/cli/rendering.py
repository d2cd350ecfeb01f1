"""Documents and differences for people: one value per setting, short names of enums, columns without frames, and no secrets."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import typer
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from topicpolicies.masks import Path, format_path, parse_path, paths_between
from topicpolicies.secrets import REDACTED, is_secret
from topicpolicies.v1.policies_pb2 import PolicyDocument, Scope, TopicPolicies
from topicpolicies.values import enum_name, map_value

from ..escaping import printable

UNSET = "unset"
"""The text in place of the value of a field that is not set."""
_COLOURS = {"+": "green", "-": "red", "~": "yellow"}


def columns(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yields lines in which the cells of a column begin alike; the last one may have any length."""
    whole = list(rows)
    widths = [max(map(_width, cells)) for cells in zip(*(row[:-1] for row in whole), strict=True)]
    for row in whole:
        padded = (cell + " " * (width - _width(cell)) for cell, width in zip(row[:-1], widths, strict=True))
        yield "  ".join((*padded, row[-1])).rstrip()


def _width(text: str) -> int:
    """Returns how many columns a text takes: a character of Chinese, for example, takes two."""
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in text)


def fitting(line: str, *, wide: bool) -> str:
    """Returns a line that fits the terminal: what does not is cut. Elsewhere, and with ``wide``, nothing is."""
    room = shutil.get_terminal_size().columns
    if wide or not sys.stdout.isatty() or _width(line) <= room:
        return line
    while _width(line) >= room:
        line = line[:-1]
    return f"{line}…"


def scope_name(document: PolicyDocument) -> str:
    """Returns the scope of a document: ``LOCAL`` or ``GLOBAL``."""
    return enum_name(Scope.DESCRIPTOR, document.scope)


def policies_of(document: PolicyDocument) -> TopicPolicies | None:
    """Returns the policies of a document; None: there is no document."""
    return document.policies if document.HasField("policies") else None


def printable_path(path: Path) -> str:
    """Returns a path for people: the keys of maps in it are names that others have chosen."""
    return printable(format_path(path))


def lines(message: Message, above: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yields the leaves that are set in a message, with their values, in the order of their names. An object without leaves is ``{}``."""
    fields = sorted(message.ListFields(), key=lambda item: item[0].name)
    if above and not fields:
        yield above, "{}"
    for field, value in fields:
        path, entries = (*above, field.name), map_value(field)
        parts = [(path, value)] if entries is None else [((*path, key), value[key]) for key in sorted(value)]
        for at, part in parts:
            if (entries or field).message_type is not None:
                yield from lines(part, at)
            else:
                yield at, _shown(at, entries or field, part)


def _shown(path: Path, field: FieldDescriptor, value: Any) -> str:
    """Returns a value as it is shown; of offload policies, values that are or may be secret are replaced by ``REDACTED``."""
    if is_secret(path):
        return REDACTED
    return ", ".join(_single(field, each) for each in value) if field.is_repeated else _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> str:
    if field.enum_type is not None:
        return enum_name(field.enum_type, value).lower()
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


def between(before: TopicPolicies | None, after: TopicPolicies | None) -> list[Difference]:
    """Returns the leaves in which two documents differ, in the order of their paths.

    An absent document has no leaves. Secrets that differ are included, and look the same before and after.
    """
    old = before if before is not None else TopicPolicies()
    new = after if after is not None else TopicPolicies()
    was, is_ = dict(lines(old)), dict(lines(new))
    found: set[Path] = set()
    for path in map(parse_path, paths_between(old, new)):
        found.update(leaf for leaf in {**was, **is_} if leaf[: len(path)] == path and (was.get(leaf) != is_.get(leaf) or leaf == path))
    return [Difference(leaf, was.get(leaf), is_.get(leaf)) for leaf in sorted(found)]


def show_differences(differences: Sequence[Difference]) -> None:
    """Prints differences, one line each, with the values before and after; in colours on a terminal."""
    rows = [(each.sign, printable_path(each.path), f"{each.before or UNSET} -> {each.after or UNSET}") for each in differences]
    for line in columns(rows):
        typer.secho(line, fg=_COLOURS[line[0]])


def one_line(before: TopicPolicies | None, after: TopicPolicies) -> str:
    """Returns what a change did, in one line: ``max_producer_per_topic: 5 -> 6``."""
    found = between(before, after)
    told = [f"{printable_path(each.path)}: {each.before or UNSET} -> {each.after or UNSET}" for each in found]
    return ", ".join(told) or "no settings changed"
