"""The assignments of ``update`` and of pulsar-admin's commands: paths, and values as people write them.

An update changes only what its assignments set: leaves of objects, entries of maps, whole lists (docs/masks.md). An empty value (``{}``,
``[]``, nothing after ``=``) sets its whole path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from topicpolicies import LIST_OPERATION_SUBTRACT, LIST_OPERATION_UNION, ListOperation, TopicPolicies, Violation
from topicpolicies.errors import invalid
from topicpolicies.masks import format_path
from topicpolicies.v1.service_pb2 import LIST_OPERATION_REPLACE
from topicpolicies.values import Target, ValueProblem, assign

from ..declared.values import canonical, find, is_number, number, structured
from .fields import meant

_ASSIGNMENT = re.compile(r"((?:`[^`]*`|[^`=])*?)([+-]?)=(.*)", re.DOTALL)
"""A ``=`` between backticks belongs to the path."""
_OPERATORS = {"": LIST_OPERATION_REPLACE, "+": LIST_OPERATION_UNION, "-": LIST_OPERATION_SUBTRACT}
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


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
        except ValueError as problem:  # also half of a character
            violations.append(Violation(text, problem.reason if isinstance(problem, ValueProblem) else "WRONG_VALUE", str(problem)))
    for text in unset:
        try:
            path = format_path(_find(text).path)
            if result.values.get(path) is not None:
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
    target = _find(name)
    path = format_path(target.path)
    value = _value(target, text)
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


def _find(text: str) -> Target:
    """Returns what a path names; if it is a word of names of fields, the error says which may be meant."""
    try:
        return find(text)
    except ValueProblem as problem:
        if names := meant(text.lower()):
            raise ValueProblem(problem.reason, f'"{text}" is not a path. Is {" or ".join(names)} meant?') from None
        raise


def _value(target: Target, text: str) -> Any:
    """Returns the value that a text stands for, by the type of what a path names."""
    at, kind = format_path(target.path), target.value
    if target.is_map or kind.message_type is not None or (target.is_list and text.startswith("[")):
        value = _from_json(target, at, text)
    elif target.is_list:
        value = [each.strip() for each in text.split(",")] if text.strip() else []
    elif kind.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        value = _WORDS.get(text.lower(), text)
    else:
        value = number(kind, text, at) if is_number(kind) else text
    assign(TopicPolicies(), target, value)
    return value


def _from_json(target: Target, at: str, text: str) -> Any:
    """Returns an object, a map or a list from JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if value is None:
        raise ValueProblem("WRONG_VALUE", f"{at} can't be null: write --unset {at} to clear it.")
    if not isinstance(value, list if target.is_list else dict):
        message = target.value.message_type
        what = "a list" if target.is_list or message is None else f"an object with the fields of {message.name}"
        raise ValueProblem("WRONG_TYPE", f"{at} takes {'an object by key' if target.is_map else what} as JSON, not {text}")
    return structured(target.value, value, target.path)
