"""Computes steps from declarations and documents: one masked update for each document that is not as declared.

The mask of a step has only the leaves that differ, and the step keeps the document that it was computed from. Deletions come last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import Message

from topicpolicies import PolicyDocument, Scope, TopicPolicies
from topicpolicies.masks import Path, format_path
from topicpolicies.names import namespace_of
from topicpolicies.values import locate

from ...core.changes import masks
from ...core.names import parse_topic
from .declared import Declaration, Declared

Key = tuple[str, Scope.ValueType]
"""A topic's full name and a scope."""


class Step(NamedTuple):
    """The change of one document."""

    document: PolicyDocument
    """The document as it was read, whose version the change demands."""
    values: TopicPolicies
    """The new values."""
    mask: tuple[str, ...]
    """The paths to change; empty: the document is deleted."""

    @property
    def deletes(self) -> bool:
        """Whether the step deletes the document."""
        return not self.mask

    @property
    def key(self) -> Key:
        """The topic and scope of the document."""
        return self.document.topic, self.document.scope


def topics_of(declared: Declared, known: Iterable[str]) -> dict[Key, list[Declaration]]:
    """Returns the declarations of each document: patterns first, then topics, each in the file's order. Patterns skip system topics.

    Args:
        declared: the content of the file.
        known: full names of topics that patterns may match, in addition to those that the file names.
    """
    patterns = [each for each in declared.declarations if each.pattern]
    exact = [each for each in declared.declarations if not each.pattern]
    found: dict[Key, list[Declaration]] = {}
    for topic in sorted({*known, *(each.topic for each in exact)}):
        for each in () if parse_topic(topic).is_system_topic else patterns:
            if each.covers(topic):
                found.setdefault((topic, each.scope), []).append(each)
    for each in exact:
        found.setdefault((each.topic, each.scope), []).append(each)
    return found


def steps(
    declared: Mapping[Key, Sequence[Declaration]], documents: Mapping[Key, PolicyDocument], *, prune: Collection[str] | None
) -> list[Step]:
    """Returns the steps that make documents as they are declared.

    Args:
        declared: the declarations of each document.
        documents: the documents as they were read, including one for each key in ``declared``, which may be absent.
        prune: the namespaces in which undeclared documents are deleted; then undeclared settings of all declared documents are cleared
            too. None: undeclared documents and settings stay.
    """
    found: list[Step] = []
    for key in sorted(declared):
        step = _step(documents[key], declared[key], prune=prune is not None)
        if step.mask:
            found.append(step)
    undeclared = () if prune is None else (key for key in sorted(documents) if namespace_of(key[0]) in prune and key not in declared)
    return [*found, *(Step(documents[key], TopicPolicies(), ()) for key in undeclared if documents[key].HasField("policies"))]


def _step(document: PolicyDocument, declarations: Sequence[Declaration], *, prune: bool) -> Step:
    leaves: dict[Path, Declaration] = {}
    unset: dict[Path, None] = {}
    for each in declarations:
        units = {_unit(path) for path in (*each.leaves, *each.unset)}
        for older in (leaves, unset):
            for path in [path for path in older if any(_overlap(_unit(path), unit) for unit in units)]:
                del older[path]
        leaves.update(dict.fromkeys(each.leaves, each))
        unset.update(dict.fromkeys(each.unset))
    present = document.policies
    values = TopicPolicies()
    mask: list[Path] = []
    for path, each in leaves.items():
        if not _same(path, present, each.values):
            masks.apply((path,), values, each.values)
            mask.append(path)
    mask += [path for path in unset if masks.is_set(path, present)]
    if prune:
        named = {_unit(path) for path in (*leaves, *unset)}
        mask += [path for path in _units(present) if not any(_overlap(path, unit) for unit in named)]
    return Step(document, values, tuple(sorted(map(format_path, mask))))


def _unit(path: Path) -> Path:
    """Returns the unit that a later declaration replaces and that is pruned as a whole: a field, or the entry of a map."""
    return path[:2] if len(path) > 1 and locate(TopicPolicies.DESCRIPTOR, path[0]).is_map else path[:1]


def _units(policies: TopicPolicies) -> list[Path]:
    return list(dict.fromkeys(_unit(path) for path in masks.populated(policies)))


def _overlap(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _same(path: Path, present: TopicPolicies, wanted: TopicPolicies) -> bool:
    """Whether a leaf has the wanted value. The order of a list does not matter, as brokers read lists into sets."""
    if not masks.is_set(path, present):
        return False
    ours, theirs = _value(path, present), _value(path, wanted)
    if locate(TopicPolicies.DESCRIPTOR, format_path(path)).is_list:
        return sorted(ours) == sorted(theirs)
    return isinstance(ours, Message) or bool(ours == theirs)


def _value(path: Path, message: Message) -> Any:
    value: Any = message
    for segment in path:
        value = value[segment] if hasattr(value, "keys") else getattr(value, segment)
    return value
