"""Parses ``path=value`` as people type it, by the type of the field that the path names.

=============  ==========================================================================================
field          value
=============  ==========================================================================================
number         ``10``, ``-1``, ``0.5``
yes or no      ``true``, ``false``; also ``yes``, ``no``, ``on``, ``off``
text           taken literally
enum           its name, with or without the type's prefix, in any case: ``full_transitive``
list           elements separated by commas, or JSON: ``shared,key_shared``, ``["shared"]``; nothing after ``=``: none
object, map    JSON, with the field names of the definition or of its JSON form: ``{"retention_size_in_mb": 100}``
=============  ==========================================================================================

``+=`` adds elements to a list, ``-=`` removes elements; both leave the others alone.

An update changes only what its assignments set: leaves of objects, entries of maps, whole lists (docs/masks.md). An empty value (``{}``,
``[]``, nothing after ``=``) sets its whole path.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from topicpolicies import LIST_OPERATION_SUBTRACT, LIST_OPERATION_UNION, ListOperation, TopicPolicies, Violation
from topicpolicies.errors import invalid
from topicpolicies.v1.service_pb2 import LIST_OPERATION_REPLACE
from topicpolicies.values import Target, ValueProblem, enum_number, kind_name, locate, map_value, no_field, scalar

_OPERATORS = {"+": LIST_OPERATION_UNION, "-": LIST_OPERATION_SUBTRACT}
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INTEGERS = (
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
)
_FLOATS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)


@dataclass(frozen=True, slots=True)
class Assignments:
    """What an update changes."""

    values: dict[str, Any] = field(default_factory=dict)
    """New values by path; None clears the path."""
    list_operations: dict[str, ListOperation.ValueType] = field(default_factory=dict)
    """The operations on lists whose elements are added or removed, by path."""

    def mask(self, paths: Iterable[str]) -> list[str]:
        """Returns the mask of an update that replaces ``paths`` as a whole: these and the paths to clear; empty if there are none."""
        given = list(paths)
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
            _add(result, *_split(text))
        except ValueProblem as problem:
            violations.append(Violation(text, problem.reason, str(problem)))
    for path in unset:
        try:
            locate(TopicPolicies.DESCRIPTOR, path)
            if path in result.values:
                raise ValueProblem("OVERLAPPING_PATHS", f'"{path}" is both set and unset.')
        except ValueProblem as problem:
            violations.append(Violation(path, problem.reason, str(problem)))
        else:
            result.values[path] = None
    if violations:
        raise invalid(*violations)
    return result


def _split(text: str) -> tuple[str, ListOperation.ValueType, str]:
    """Returns path, operation and value of an assignment. A ``=`` between backticks belongs to the path."""
    quoted = False
    for at, character in enumerate(text):
        if character == "`":
            quoted = not quoted
        elif character == "=" and not quoted:
            operation = _OPERATORS.get(text[at - 1]) if at else None
            path = text[: at - 1] if operation else text[:at]
            return path, operation or LIST_OPERATION_REPLACE, text[at + 1 :]
    if quoted:
        locate(TopicPolicies.DESCRIPTOR, text.rpartition("=")[0] or text)  # raises an error that says what is wrong with the path
    raise ValueProblem("NOT_AN_ASSIGNMENT", f'"{text}" is not an assignment: write path=value, or --unset {text} to clear it.')


def _add(result: Assignments, path: str, operation: ListOperation.ValueType, text: str) -> None:
    target = locate(TopicPolicies.DESCRIPTOR, path)
    value = parse_value(target, path, text)
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


def parse_value(target: Target, path: str, text: str) -> Any:
    """Returns the value that a text stands for, by the type of what a path names.

    Raises:
        ValueProblem: the text does not fit the type.
    """
    if target.is_map:
        return _from_json(target.field, path, text)
    if target.is_list:
        if text.startswith("["):
            return list(_from_json(target.field, path, text))
        return [_single(target.field, path, each.strip()) for each in text.split(",")] if text.strip() else []
    if target.value.message_type is not None:
        return _from_json(target.value, path, text)
    return _single(target.value, path, text)


def _single(kind: FieldDescriptor, path: str, text: str) -> Any:
    value: Any = text
    if kind.enum_type is not None or kind.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        pass
    elif kind.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        value = _WORDS.get(text.lower())
    elif kind.cpp_type in _INTEGERS:
        value = int(text) if _INTEGER.fullmatch(text) and len(text) < 30 else None
    elif kind.cpp_type in _FLOATS:
        value = _number(text)
    if value is None:
        raise ValueProblem("WRONG_TYPE", f'{path} takes {kind_name(kind)}, not "{text}".')
    return scalar(kind, value, path)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _from_json(kind: FieldDescriptor, path: str, text: str) -> Any:
    """Returns an object, a map or a list from JSON, as the field of a message holds it."""
    try:
        parsed = json.loads(text, object_pairs_hook=lambda pairs: _once(path, pairs))
    except ValueProblem:
        raise
    except (ValueError, RecursionError):
        parsed = text
    if parsed is None:
        raise ValueProblem("WRONG_VALUE", f"{path} can't be null: write --unset {path} to clear it.")
    if not isinstance(parsed, list if kind.is_repeated and map_value(kind) is None else dict):
        raise ValueProblem("WRONG_TYPE", f"{path} takes {_json_kind(kind)} as JSON, not {text}")
    assert kind.containing_type is not None  # a field of a message, and no extension
    message = GetMessageClass(kind.containing_type)()
    try:
        json_format.ParseDict({kind.name: _with_enum_names(kind, parsed)}, message)
    except (json_format.ParseError, ValueProblem, RecursionError) as error:
        raise ValueProblem("WRONG_VALUE", f"{path}: {error}") from None
    return getattr(message, kind.name)


def _once(path: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of JSON, in which no name may stand twice: the former value would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueProblem("WRONG_VALUE", f'{path}: "{twice}" is given twice.')
    return found


def _json_kind(kind: FieldDescriptor) -> str:
    if map_value(kind) is not None:
        return "an object by key"
    if kind.is_repeated or kind.message_type is None:
        return "a list"
    return f"an object with the fields of {kind.message_type.name}"


def _with_enum_names(kind: FieldDescriptor, value: Any) -> Any:
    """Returns JSON in which the names of enums, short ones too, are replaced by numbers, which Protobuf's JSON accepts."""
    values = map_value(kind)
    if values is not None:
        return {key: _with_enum_names(values, each) for key, each in value.items()} if isinstance(value, dict) else value
    if isinstance(value, list):
        return [_with_enum_names(kind, each) for each in value]
    if kind.enum_type is not None and isinstance(value, str):
        return enum_number(kind.enum_type, value)
    if kind.message_type is not None and isinstance(value, dict):
        return {name: _with_enum_names(_field(kind.message_type, name), each) for name, each in value.items()}
    return value


def _field(descriptor: Descriptor, name: str) -> FieldDescriptor:
    for each in descriptor.fields:
        if name in (each.name, each.json_name):
            return each
    raise ValueProblem("UNKNOWN_PATH", no_field(descriptor, name))
