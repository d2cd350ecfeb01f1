"""The steps that make documents as they are declared, and who declared what, as the events of the history name the owners.

A step changes one document that is not as declared: its mask has only the leaves that differ, and the change is made on condition that the
document still has the version that was read.

A change that carries out a declaration names its owner. A path belongs to the owner of the newest such change of it; a change without an
owner takes it from nobody. A deletion ends all ownership of a document.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from topicpolicies import (
    REDACTED,
    OutcomeUnknown,
    PolicyDocument,
    Scope,
    TopicPolicies,
    TopicPoliciesError,
    delete_request,
    update_request,
)
from topicpolicies.masks import Path, format_path, parse_path, paths_between
from topicpolicies.names import namespace_of
from topicpolicies.requests import ChangeOptions
from topicpolicies.v1.service_pb2 import DeletePolicyRequest, UpdatePolicyRequest

from ..core.changes import masks
from ..escaping import printable
from .files import Declaration, Declared
from .values import MAPS, Difference, between, leaves, policies_of, scope_name

Key = tuple[str, Scope.ValueType]
"""A topic's full name and a scope."""
_LISTS = tuple(each.name for each in TopicPolicies.DESCRIPTOR.fields if each.is_repeated and each.name not in MAPS)


@dataclass
class Step:
    """The change of one document, and what has become of it: neither ``version`` nor ``error`` until it is answered."""

    document: PolicyDocument
    """The document as it was read, whose version the change demands."""
    values: TopicPolicies
    """The new values."""
    mask: tuple[str, ...]
    """The paths to change; empty: the document is deleted."""
    after: TopicPolicies | None = None
    """The document after the step, as the server has checked it; None: the step deletes it."""
    version: str = ""
    """The version of the document after the step; empty: it was not made."""
    error: TopicPoliciesError | None = None

    @property
    def deletes(self) -> bool:
        """Whether the step deletes the document."""
        return not self.mask

    @property
    def title(self) -> str:
        """The document, for people."""
        return f"{printable(self.document.topic)}  {scope_name(self.document)}"

    @property
    def named(self) -> dict[str, Any]:
        """The document, for programs."""
        return {"topic": self.document.topic, "scope": scope_name(self.document)}

    @property
    def state(self) -> str:
        """What has become of the step: ``done``, ``failed``, ``unknown`` (whether it was made), ``not sent``."""
        if self.error is None:
            return "done" if self.version else "not sent"
        return "unknown" if isinstance(self.error, OutcomeUnknown) else "failed"

    def json(self) -> dict[str, Any]:
        """Returns what the step is to change, for programs."""
        action = {"version": self.document.version, "action": "delete" if self.deletes else "update", "update_mask": list(self.mask)}
        return self.named | action | {"differences": [each.json() for each in self.differences()]}

    def differences(self) -> list[Difference]:
        """Returns the leaves that the step changes. A secret that is replaced looks the same before and after."""
        found = between(policies_of(self.document), self.after)
        return found or [Difference(parse_path(path), REDACTED, REDACTED) for path in self.mask]

    def request(self, *, validate_only: bool = False, reason: str = "", owner: str = "") -> UpdatePolicyRequest | DeletePolicyRequest:
        """Returns a new request of the step."""
        document = self.document
        options = ChangeOptions(scope=document.scope, version=document.version, validate_only=validate_only, reason=reason, owner=owner)
        if self.deletes:
            return delete_request(document.topic, **options)
        return update_request(document.topic, self.values, mask=self.mask, **options)


def topics_of(declared: Declared, known: Iterable[str]) -> dict[Key, list[Declaration]]:
    """Returns the declarations of each document, as ``Declared.covering``.

    ``known``: full names of topics that patterns may match, in addition to those that the file names.
    """
    found: dict[Key, list[Declaration]] = {}
    for topic in sorted({*known, *declared.topics}):
        for each in declared.covering(topic):
            found.setdefault((topic, each.scope), []).append(each)
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
    changed = (step_of(documents[key], declared[key], prune=prune is not None) for key in sorted(declared))
    undeclared = (each for key, each in sorted(documents.items(), key=lambda item: item[0]) if key not in declared)
    deleted = (each for each in undeclared if namespace_of(each.topic) in (prune or ()) and each.HasField("policies"))
    return [*(step for step in changed if step is not None), *(Step(document, TopicPolicies(), ()) for document in deleted)]


def step_of(document: PolicyDocument, declarations: Iterable[Declaration], *, prune: bool) -> Step | None:
    """Returns the step that makes a document as it is declared; None: it is. ``prune``: whether what is not declared is cleared."""
    declared: dict[Path, TopicPolicies] = {}
    for each in declarations:
        declared = {path: values for path, values in declared.items() if not _among(path, each.paths)}
        declared |= dict.fromkeys(each.paths, each.values)
    present, wanted = document.policies, TopicPolicies()
    wanted.CopyFrom(present)
    for path, values in declared.items():
        an_object = masks.object_at(path) is not None and masks.is_set(path, values)
        if not (an_object and masks.is_set(path, present)):  # an object without declared leaves has only to be there
            masks.apply((path,), wanted, values)
    if prune:
        masks.apply(tuple(_unit(path) for path in leaves(present) if not _among(path, declared)), wanted, TopicPolicies())
    for name in _LISTS:  # their order does not matter: brokers read them into sets
        if sorted(getattr(present, name)) == sorted(getattr(wanted, name)):
            getattr(wanted, name)[:] = getattr(present, name)
    mask = tuple(sorted(paths_between(present, wanted)))
    return Step(document, wanted, mask) if mask else None


def _unit(path: Path) -> Path:
    """Returns the unit that a later declaration replaces and that is pruned as a whole: a field, or the entry of a map."""
    return path[:2] if path[0] in MAPS else path[:1]


def _among(path: Path, others: Iterable[Path]) -> bool:
    """Whether the unit of a path is, contains or is inside that of another one."""
    return any(_overlap(_unit(path), _unit(each)) for each in others)


def owned_by_others(step: Step, owner: str, events: Iterable[tuple[str, Sequence[str], bool]]) -> dict[str, str]:
    """Returns the paths that a step changes and that belong to another owner, and to whom.

    Args:
        step: the step.
        owner: who wants to make it; empty: nobody in particular.
        events: the events that changed its document, the newest first: the owner whose declaration each carried out (empty: none), the
            paths that it changed (empty: all), and whether it left a document.
    """
    left = {path: parse_path(path) for path in step.mask or map(format_path, masks.populated(step.document.policies))}
    found: dict[str, str] = {}
    for declarer, mask, there in events:
        if not left or not there:
            break
        if declarer:
            changed = [() if each == "*" else parse_path(each) for each in mask or ("*",)]
            touched = [path for path, parsed in left.items() if any(_overlap(parsed, each) for each in changed)]
            found |= {path: declarer for path in touched if declarer != owner}
            left = {path: parsed for path, parsed in left.items() if path not in touched}
    return found


def _overlap(one: Path, other: Path) -> bool:
    """Whether a path is, contains or is inside another one."""
    return all(ours == theirs for ours, theirs in zip(one, other, strict=False))
