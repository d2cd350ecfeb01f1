"""Values as people write them, on the command line and in YAML: by the type and the unit of the field that a path names.

docs/command-line.md has the forms of values.

An update changes only what its assignments set: leaves of objects, entries of maps, whole lists (docs/masks.md). An empty value (``{}``,
``[]``, nothing after ``=``) sets its whole path.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from topicpolicies import LIST_OPERATION_SUBTRACT, LIST_OPERATION_UNION, ListOperation, TopicPolicies, Violation
from topicpolicies.errors import invalid
from topicpolicies.masks import Path, PathError, format_path, parse_path
from topicpolicies.v1.service_pb2 import LIST_OPERATION_REPLACE
from topicpolicies.values import Target, ValueProblem, assign, kind_name, locate, map_value

from .fields import meanings, unit_of

_ASSIGNMENT = re.compile(r"((?:`[^`]*`|[^`=])*?)([+-]?)=(.*)", re.DOTALL)
"""A ``=`` between backticks belongs to the path."""
_OPERATORS = {"": LIST_OPERATION_REPLACE, "+": LIST_OPERATION_UNION, "-": LIST_OPERATION_SUBTRACT}
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_INTEGER = re.compile(r"[+-]?[0-9]{1,29}")
_QUANTITY = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,9})?) ?([a-z]+)")
_FLOATS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)
_INTEGERS = (
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
)
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
    "milliseconds": (1, _TIMES),
    "seconds": (_SECOND, _TIMES),
    "minutes": (60 * _SECOND, _TIMES),
    "bytes": (1, _SIZES),
    "megabytes": (_MEGABYTE, _SIZES),
}
"""The units of fields, and those that a value may have instead: in milliseconds, and in bytes."""


def _fields(holder: Descriptor) -> Iterator[FieldDescriptor]:
    for each in holder.fields:
        yield each
        if each.message_type is not None:
            yield from _fields(each.message_type)


_NAMES = {name: each.name for each in _fields(TopicPolicies.DESCRIPTOR) for name in (each.json_name, each.camelcase_name)}
"""The fields of documents and their objects, by the names of their JSON form."""
_MAPS = frozenset(each.name for each in _fields(TopicPolicies.DESCRIPTOR) if map_value(each) is not None)


def canonical(text: str) -> str:
    """Returns a path by the names of the definition: those of its JSON form (``messageTTLInSeconds``) are replaced. What is none stays."""
    try:
        path = parse_path(text)
    except PathError:
        return text
    found: list[str] = []
    for segment in path:
        is_key = bool(found) and found[-1] in _MAPS
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
    return kind.cpp_type in (*_INTEGERS, *_FLOATS)


def number(kind: FieldDescriptor, text: str, at: str, bare: str = "") -> int | float:
    """Returns the number that a text stands for, in the unit of its field.

    Args:
        kind: the field.
        text: a number, perhaps with a unit of time or size, or ``infinite``.
        at: the path, for errors.
        bare: the unit of a number without one; empty: the field's own.

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
        known = meanings(kind)
        if "-1" in known:
            return -1
        raise ValueProblem("WRONG_VALUE", f"{at} can't be infinite" + (f": 0 is {known['0']}." if "0" in known else "."))
    elif _INTEGER.fullmatch(text) and (not bare or int(text) <= 0):
        return int(text)
    elif unit:
        own, units = _UNITS[unit]
        found = _QUANTITY.fullmatch(text.strip().lower())
        if found is None and bare and _INTEGER.fullmatch(text):
            amount = Fraction(int(text) * _UNITS[bare][0], own)
        else:
            factor = units.get(found[2] if units is _TIMES else found[2].removesuffix("b").removesuffix("i") or "b") if found else None
            if found is None or factor is None:
                raise ValueProblem("WRONG_TYPE", f'{at} takes a whole number of {unit}, or one of {", ".join(units)}, not "{text}".')
            amount = Fraction(found[1]) * factor / own
        if amount.denominator == 1:
            return amount.numerator
        raise ValueProblem("WRONG_VALUE", f"{at}: {text}{'' if found else f' {bare}'} is not a whole number of {unit}.")
    raise ValueProblem("WRONG_TYPE", f'{at} takes {kind_name(kind)}, not "{text}".')


def with_unit(value: int, name: str) -> str:
    """Returns the number of a field in the greatest unit of which it is a whole number: ``number`` reads 5400 seconds as 90m.

    Days are the greatest unit of time. What is no whole number of a unit greater than the field's own has none, as zero and less.
    """
    own, units = _UNITS.get(unit_of(name), (1, {}))
    greater = [each for each, size in units.items() if size > own and value * own % size == 0 and each not in ("w", "y")]
    if value <= 0 or not greater:
        return str(value)
    return f"{value * own // units[greater[-1]]}{greater[-1].upper() if units is _SIZES else greater[-1]}"


@dataclass(frozen=True, slots=True)
class Assignments:
    """What an update changes."""

    values: dict[str, Any] = field(default_factory=dict)
    """New values by path; None clears the path."""
    list_operations: dict[str, ListOperation.ValueType] = field(default_factory=dict)
    """The operations on lists whose elements are added or removed, by path."""

    def mask(self, paths: Iterable[str]) -> list[str]:
        """Returns the mask of an update that replaces ``paths`` as a whole: these and the paths to clear; empty if there are none."""
        given = [canonical(path) for path in paths]
        if not given or given == ["*"]:
            return given
        return [*given, *(path for path, value in self.values.items() if value is None)]


def parse(assignments: Iterable[str], unset: Iterable[str] = ()) -> Assignments:
    """Parses assignments, and the paths to clear.

    Raises:
        InvalidArgument: some are wrong; the error has all violations.
    """
    result = Assignments()
    violations: list[Violation] = []
    for text in assignments:
        try:
            _add(result, text)
        except ValueProblem as problem:
            violations.append(Violation(text, problem.reason, str(problem)))
    for text in unset:
        try:
            path = format_path(find(text).path)
            if path in result.values:
                raise ValueProblem("OVERLAPPING_PATHS", f'"{text}" is both set and unset.')
        except ValueProblem as problem:
            violations.append(Violation(text, problem.reason, str(problem)))
        else:
            result.values[path] = None
    if violations:
        raise invalid(*violations)
    return result


def _add(result: Assignments, text: str) -> None:
    found = _ASSIGNMENT.fullmatch(text)
    if found is None:
        if "`" in text:
            find(text.rpartition("=")[0] or text)  # raises an error that says what is wrong with the path
        raise ValueProblem("NOT_AN_ASSIGNMENT", f'"{text}" is not an assignment: write path=value, or --unset {text} to clear it.')
    name, operator, text = found.groups()
    operation = _OPERATORS[operator]
    target = find(name)
    path = format_path(target.path)
    value = parse_value(target, text)
    if operation != LIST_OPERATION_REPLACE:
        if not target.is_list:
            raise ValueProblem("WRONG_TYPE", f'"{path}" is not a list: only elements of lists can be added and removed.')
        if result.list_operations.get(path) == operation:
            value = [*result.values[path], *value]
        elif path in result.values:
            raise ValueProblem(
                "OVERLAPPING_PATHS", f'"{path}" is given twice: one update either adds elements, removes some, or replaces all.'
            )
        result.list_operations[path] = operation
    elif path in result.values:
        raise ValueProblem("OVERLAPPING_PATHS", f'"{path}" is given twice.')
    result.values[path] = value


def parse_value(target: Target, text: str, bare: str = "") -> Any:
    """Returns the value that a text stands for, by the type of what a path names. ``bare``: the unit of a number without one.

    Raises:
        ValueProblem: the text does not fit the type.
    """
    at, kind = format_path(target.path), target.value
    if target.is_map or kind.message_type is not None or (target.is_list and text.startswith("[")):
        value = _from_json(target, at, text)
    elif target.is_list:
        value = [each.strip() for each in text.split(",")] if text.strip() else []
    elif kind.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        value = _WORDS.get(text.lower(), text)
    else:
        value = number(kind, text, at, bare) if is_number(kind) else text
    try:
        assign(TopicPolicies(), target, value)
    except UnicodeEncodeError:
        raise ValueProblem("WRONG_VALUE", f"{at} has half of a character (a surrogate without its other half).") from None
    return value


def _from_json(target: Target, at: str, text: str) -> Any:
    """Returns an object, a map or a list from JSON."""

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, each in pairs:
            if name in found:  # its former value would be lost
                raise ValueProblem("WRONG_VALUE", f'{at}: "{name}" is given twice.')
            found[name] = each
        return found

    try:
        value = json.loads(text, object_pairs_hook=made)
    except ValueProblem:
        raise
    except (ValueError, RecursionError):
        value = text
    if value is None:
        raise ValueProblem("WRONG_VALUE", f"{at} can't be null: write --unset {at} to clear it.")
    if not isinstance(value, list if target.is_list else dict):
        message = target.value.message_type
        what = "a list" if target.is_list or message is None else f"an object with the fields of {message.name}"
        raise ValueProblem("WRONG_TYPE", f"{at} takes {'an object by key' if target.is_map else what} as JSON, not {text}")
    return structured(target.value, value, target.path)
