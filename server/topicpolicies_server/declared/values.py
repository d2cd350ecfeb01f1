"""Values as people write them, on the command line and in YAML: by the type and the unit of the field that a path names.

docs/command-line.md has the forms of values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from topicpolicies import TopicPolicies
from topicpolicies.masks import Path, PathError, format_path, parse_path
from topicpolicies.values import Target, ValueProblem, kind_name, locate, map_value

from .definition import may_be_infinite, unit_of

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
        if may_be_infinite(kind):
            return -1
        raise ValueProblem("WRONG_VALUE", f"{at} can't be infinite.")
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

    Days are the greatest unit of time. Zero and less have no unit.
    """
    own, units = _UNITS.get(unit_of(name), (1, {}))
    whole = [each for each, size in units.items() if size >= own and value * own % size == 0 and each not in ("w", "y")]
    if value <= 0 or not whole:
        return str(value)
    return f"{value * own // units[whole[-1]]}{whole[-1].upper() if units is _SIZES else whole[-1]}"
