"""Values as people write and read them, on the command line and in YAML: by the type and the unit of the field that a path names.

Also documents and their differences in these words, without secrets.

docs/command-line.md has the forms of values. A field's unit comes from its name, and whether it may be -1 from the comment in its
definition: the comments are in ``fields.json``, which ``proto/generate.py`` writes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from topicpolicies import PolicyDocument, Scope, TopicPolicies
from topicpolicies.masks import Path, PathError, format_path, parse_path, paths_between
from topicpolicies.secrets import REDACTED, is_secret
from topicpolicies.values import Target, ValueProblem, enum_name, kind_name, locate, map_value

from ..escaping import printable

_INTEGER = re.compile(r"[+-]?[0-9]{1,29}")
_QUANTITY = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,9})?) ?([a-z]+)")
_FLOATS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)
_NO_NUMBERS = (FieldDescriptor.CPPTYPE_BOOL, FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_ENUM, FieldDescriptor.CPPTYPE_MESSAGE)
_SECOND, _MEGABYTE = 1_000, 1 << 20
_SIZES = {letter: 1 << 10 * power for power, letter in enumerate(("b", "k", "m", "g", "t", "p"))}
_TIMES = {
    "ms": 1,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3_600 * _SECOND,
    "d": 86_400 * _SECOND,
    "w": 7 * 86_400 * _SECOND,
    "y": 365 * 86_400 * _SECOND,
}
_UNITS = {
    "milliseconds": (re.compile("millis$"), 1, _TIMES),
    "seconds": (re.compile("seconds?$|^limit_time$"), _SECOND, _TIMES),
    "minutes": (re.compile("minutes$"), 60 * _SECOND, _TIMES),
    "megabytes": (re.compile("_mb$"), _MEGABYTE, _SIZES),
    "bytes": (re.compile("bytes?$|^(compaction_threshold|max_message_size|limit_size)$"), 1, _SIZES),
}
"""The units of fields: whose they are by name, and those that a value may have instead: in milliseconds, and in bytes."""
_MINUS_ONE = re.compile("(?:-1|negative) is ")
"""How the comments of the definition say that a field may be -1."""


def unit_of(name: str) -> str:
    """Returns the unit of a field, by its name; empty: it has none."""
    return next((unit for unit, (pattern, *_) in _UNITS.items() if pattern.search(name)), "")


@cache
def _comments() -> dict[str, str]:
    found: dict[str, str] = json.loads(resources.files(__package__).joinpath("fields.json").read_text(encoding="utf-8"))
    return found


def comment_of(full_name: str) -> str:
    """Returns the comment of a field or of an enum's value: ``BacklogQuota.limit_size``."""
    return _comments().get(full_name, "")


def _fields(holder: Descriptor) -> Iterator[FieldDescriptor]:
    for each in holder.fields:
        yield each
        if each.message_type is not None:
            yield from _fields(each.message_type)


_NAMES = {name: each.name for each in _fields(TopicPolicies.DESCRIPTOR) for name in (each.json_name, each.camelcase_name)}
"""The fields of documents and their objects, by the names of their JSON form."""
MAPS = frozenset(each.name for each in _fields(TopicPolicies.DESCRIPTOR) if map_value(each) is not None)


def canonical(text: str) -> str:
    """Returns a path by the names of the definition: those of its JSON form (``messageTTLInSeconds``) are replaced. What is none stays."""
    try:
        path = parse_path(text)
    except PathError:
        return text
    found: list[str] = []
    for segment in path:
        is_key = bool(found) and found[-1] in MAPS
        found.append(segment if is_key else _NAMES.get(segment, segment))
    return format_path(found) if tuple(found) != path else text


def find(text: str) -> Target:
    """Returns what a path names in a document.

    Raises:
        ValueProblem: the path is malformed or names nothing; the message says what is meant, and what lists the fields.
    """
    try:
        return locate(TopicPolicies.DESCRIPTOR, canonical(text))
    except ValueProblem as problem:
        if problem.reason == "UNKNOWN_PATH":
            raise ValueProblem(problem.reason, f"{str(problem).partition(' It has ')[0]} topicpolicies explain lists all fields.") from None
        raise


def structured(kind: FieldDescriptor, value: Any, at: Path) -> Any:
    """Returns a value of JSON or YAML for a field: with the names of the definition, and with numbers in the field's unit.

    Raises:
        ValueProblem: a name stands twice, or a quantity is not in a unit of the field.
    """
    values = map_value(kind)
    if isinstance(value, Mapping) and values is not None:
        return {key: structured(values, each, (*at, str(key))) for key, each in value.items()}
    if isinstance(value, Mapping) and kind.message_type is not None:
        made: dict[Any, Any] = {}
        for key, each in value.items():
            name = _NAMES.get(key, key)
            if name in made:
                raise ValueProblem("WRONG_VALUE", f'{format_path(at)}: "{key}" is given twice.')
            part = next((field for field in kind.message_type.fields if field.name == name), None)
            made[name] = each if part is None else structured(part, each, (*at, part.name))
        return made
    if isinstance(value, list) and kind.is_repeated and values is None and not any(_has_parts(each) for each in value):
        return list(value)
    if _has_parts(value) and value:  # it is not shown: in YAML it may refer to others, and have no bound
        raise ValueProblem("WRONG_TYPE", f"{format_path(at)} takes {kind_name(kind)}, not a list or a mapping.")
    return number(kind, value, format_path(at)) if isinstance(value, str) and is_number(kind) else value


def _has_parts(value: Any) -> bool:
    return isinstance(value, (list, Mapping))


def is_number(kind: FieldDescriptor) -> bool:
    """Whether a field holds numbers."""
    return kind.cpp_type not in _NO_NUMBERS


def number(kind: FieldDescriptor, text: str, at: str) -> int | float:
    """Returns the number that a text stands for, in the unit of its field.

    Args:
        kind: the field.
        text: a number, perhaps with a unit of time or size, or ``infinite``.
        at: the path, for errors.

    Raises:
        ValueProblem: the text is no number, or no whole number of the field's unit.
    """
    unit = unit_of(kind.name)
    if kind.cpp_type in _FLOATS:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if math.isfinite(value):
            return value
    elif text.strip().lower() == "infinite":
        if _MINUS_ONE.search(comment_of(f"{getattr(kind.containing_type, 'name', '')}.{kind.name}")):
            return -1
        raise ValueProblem("WRONG_VALUE", f"{at} can't be infinite.")
    elif _INTEGER.fullmatch(text):
        return int(text)
    elif unit:
        _, own, units = _UNITS[unit]
        found = _QUANTITY.fullmatch(text.strip().lower())
        factor = units.get(found[2] if units is _TIMES else found[2].removesuffix("b").removesuffix("i") or "b") if found else None
        if found is None or factor is None:
            raise ValueProblem("WRONG_TYPE", f'{at} takes a whole number of {unit}, or one of {", ".join(units)}, not "{text}".')
        amount = Fraction(found[1]) * factor / own
        if amount.denominator == 1:
            return amount.numerator
        raise ValueProblem("WRONG_VALUE", f"{at}: {text} is not a whole number of {unit}.")
    raise ValueProblem("WRONG_TYPE", f'{at} takes {kind_name(kind)}, not "{text}".')


def with_unit(value: int, name: str) -> str:
    """Returns the number of a field in the greatest unit of which it is a whole number: ``number`` reads 5400 seconds as 90m.

    Days are the greatest unit of time. Zero and less have no unit.
    """
    _, own, units = _UNITS.get(unit_of(name), (None, 1, {}))
    whole = [each for each, size in units.items() if size >= own and value * own % size == 0 and each not in ("w", "y")]
    if value <= 0 or not whole:
        return str(value)
    return f"{value * own // units[whole[-1]]}{whole[-1].upper() if units is _SIZES else whole[-1]}"


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


def leaves(message: Message | None) -> dict[Path, Any]:
    """Returns the values of the leaves that are set in a message, as ``plain``. An object without leaves is one; None has none.

    Of offload policies, values that are or may be secret are replaced by ``REDACTED``.
    """
    return {} if message is None else dict(_leaves(plain(message), ()))


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and (value or not path):
        for name, part in value.items():
            yield from _leaves(part, (*path, name))
    else:
        yield path, REDACTED if is_secret(path) else value


def lines(message: Message) -> Iterator[tuple[Path, str]]:
    """Yields the leaves that are set in a message, in the order of their names, with their values for people."""
    return ((path, shown(path, value)) for path, value in leaves(message).items())


def shown(path: Path, value: Any) -> str:
    """Returns the value of a leaf for people; None: it is not set."""
    if value is None:
        return UNSET
    if isinstance(value, list):
        return ", ".join(shown(path, each) for each in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and unit_of(path[-1]):
        return with_unit(value, path[-1])
    return f"{value:g}" if isinstance(value, float) else printable(str(value))


def compact(policies: TopicPolicies) -> str:
    """Returns a document in one line."""
    return ", ".join(f"{printable_path(path)}={value}" for path, value in lines(policies)) or "no settings"


class Difference(NamedTuple):
    """One leaf in which two documents differ."""

    path: Path
    before: Any
    """The value as of ``leaves``; None: the leaf is not set."""
    after: Any

    @property
    def sign(self) -> str:
        """``+`` added, ``-`` removed, ``~`` changed."""
        if self.before is None:
            return "+"
        return "-" if self.after is None else "~"

    @property
    def change(self) -> str:
        """The values for people: ``5 -> 6``."""
        return f"{shown(self.path, self.before)} -> {shown(self.path, self.after)}"

    def json(self) -> dict[str, Any]:
        """Returns the difference for programs."""
        return {"path": format_path(self.path), "before": self.before, "after": self.after}


def between(before: TopicPolicies | None, after: TopicPolicies | None) -> list[Difference]:
    """Returns the leaves in which two documents differ, in the order of their paths. An absent document has no leaves.

    Secrets that differ are included, and look the same before and after.
    """
    was, is_ = leaves(before), leaves(after)
    found: set[Path] = set()
    for path in map(parse_path, paths_between(before or TopicPolicies(), after or TopicPolicies())):
        found.update(leaf for leaf in {**was, **is_} if leaf[: len(path)] == path and (was.get(leaf) != is_.get(leaf) or leaf == path))
    return [Difference(leaf, was.get(leaf), is_.get(leaf)) for leaf in sorted(found)]


def one_line(before: TopicPolicies | None, after: TopicPolicies) -> str:
    """Returns what a change did, in one line: ``max_producer_per_topic: 5 -> 6``."""
    return ", ".join(f"{printable_path(each.path)}: {each.change}" for each in between(before, after)) or "no settings changed"
