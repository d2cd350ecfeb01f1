"""An update request, compiled to a ``Change`` that can be applied to any document.

Compiling makes every check that does not need the document, and reports all violations at once. Applying is fast then: a change that
names whole settings merges bytes; only a setting of which some leaves are named is parsed, changed and serialized again.

The settings that a change names are of these kinds:

- *whole*: the field itself, all leaves of it, or a map's entry. The new value does not depend on the old one.
- *partial*: some leaves. The new value is computed from the old one, so the event carries a digest of the old value (``Applied.reads``) and
  does not count if the head has another value when the event is folded.
- *families*: a map field without a key. All its entries are replaced; which settings these are depends on the document.
- *operands*: elements to add to a list, or to remove from it. The fold applies them again, to the list of the head.
- *redacted*: the offload policies, with ``REDACTED`` in the place of secrets. The old secrets are kept there, so the old value is read.

A mask can't name what this version's definition lacks. Settings of a newer broker (``"?..."``) therefore stay, even where ``*`` replaces
the document, and unknown leaves of an object stay until the object is removed. To keep them, the old value is read too.

Without paths, the mask is what is set in the request's document (AIP-134), leaf by leaf, so that nothing changes that is not mentioned.
What is set there and can't be named, because this version's definition lacks it, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from topicpolicies.masks import format_path
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import ListOperation

from ..errors import Violation, invalid
from ..policies import documents
from ..policies.documents import EXTRA_PREFIX, EXTRAS_TAG, LISTS, Document, Setting
from ..policies.events import ListChange
from ..policies.secrets import SETTING as OFFLOAD
from ..policies.secrets import is_redacted, restore
from ..reasons import ViolationReason
from . import completion, masks, rules
from .fields import unknown_fields
from .plan import Plan, paths_of, plan_of

_LIST_CHANGES: Mapping[int, ListChange | None] = {
    ListOperation.LIST_OPERATION_UNSPECIFIED: None,
    ListOperation.LIST_OPERATION_REPLACE: None,
    ListOperation.LIST_OPERATION_UNION: ListChange.UNION,
    ListOperation.LIST_OPERATION_SUBTRACT: ListChange.SUBTRACT,
}


class Applied(NamedTuple):
    """What a change makes of a document."""

    document: dict[Setting, bytes]
    """The document after the change."""
    changed: list[Setting]
    """The settings in which it differs from the document before."""
    reads: dict[Setting, str]
    """Digests of the settings whose new value depends on the old one: all this holds only while they are the same (``Stamp.reads``)."""
    violations: list[Violation]
    """Objects that would be incomplete (``HALF_OBJECT``), and ``REDACTED`` where there is no secret (``REDACTED_SECRET``)."""


@dataclass(slots=True, eq=False)
class Change:
    """A validated update. Immutable by convention: a frozen dataclass is slow to create."""

    plan: Plan
    """The mask, also where the request had none."""
    partial: frozenset[Setting]
    """The settings of which only some leaves are named, or whose new value keeps secrets of the old one."""
    operands: Mapping[Setting, tuple[ListChange, bytes]]
    """The lists that are not replaced: the list operation, and the given elements as the bytes of a setting."""
    _values: Mapping[Setting, bytes | None]
    """The new values of whole settings; None clears. Includes the entries of the families and, if ``whole``, all settings."""
    given: TopicPolicies
    """The masked values of the request. Must not be changed."""

    def apply(self, settings: Document | None) -> dict[Setting, bytes]:
        """Returns the document after the change.

        Raises:
            PolicyError: INVALID_ARGUMENT, an object would be incomplete (reason ``HALF_OBJECT``), or ``REDACTED`` stands where there is no
                secret (``REDACTED_SECRET``); nothing is applied.
        """
        applied = self.applied(settings)
        if applied.violations:
            raise invalid(*applied.violations)
        return applied.document

    def applied(self, settings: Document | None) -> Applied:
        """Applies the change to a document; settings that would be incomplete stay as they were."""
        before: Document = settings or {}
        plan, new = self.plan, self._values
        if plan.whole:
            new = {**{setting: None for setting in before if not setting.startswith(EXTRA_PREFIX)}, **new}
        elif plan.families:
            new = {**{setting: None for setting in before if documents.family(setting) in plan.families}, **new}
        if self.operands:
            new = {**new, **{setting: _combined(before.get(setting), *operand) for setting, operand in self.operands.items()}}
        read = list(self.partial)
        for setting in self._values:
            old = before.get(setting)
            if old is not None and EXTRAS_TAG in old and documents.family(setting) in documents.OBJECTS:
                read.append(setting)  # it has leaves of a newer broker; where the tag stands in a text, this is so by chance
        violations: list[Violation] = []
        if read:
            new = {**new, **{setting: self._edited(setting, before.get(setting, b""), violations) for setting in read}}
        after, changed = dict(before), []
        for setting, value in new.items():
            if value != before.get(setting):
                changed.append(setting)
                if value is None:
                    del after[setting]
                else:
                    after[setting] = value
        return Applied(after, changed, {setting: documents.digest(before.get(setting)) for setting in read} if read else {}, violations)

    def _edited(self, setting: Setting, old: bytes, violations: list[Violation]) -> bytes | None:
        part = TopicPolicies.FromString(old)
        mask = self.plan.by_setting.get(setting) or paths_of(setting)
        masks.apply(mask, part, self.given)
        if setting == OFFLOAD:
            violations += restore(part, old)
        incomplete = completion.complete(part, mask)
        if incomplete:
            violations += incomplete
            return old or None
        return part.SerializeToString(deterministic=True) or None


def compile_change(policies: TopicPolicies | None, paths: Sequence[str], list_operations: Mapping[str, int]) -> Change:
    """Compiles an update request.

    Args:
        policies: the new values; None is an empty document. It is copied.
        paths: the mask; empty: the mask is what is set in ``policies``.
        list_operations: numbers of ``topicpolicies.v1.ListOperation``, by list field.

    Raises:
        PolicyError: INVALID_ARGUMENT, with every violation that can be found without the document.
    """
    source = policies if policies is not None else TopicPolicies()
    unknown = () if paths else tuple(unknown_fields(source))
    plan = plan_of(tuple(islice(paths, masks.MAX_PATHS + 1)) if paths else _implied(source, unknown))
    violations = [*plan.violations, *unknown]
    if paths and plan.objects:
        violations += unknown_fields(source, plan.objects)
    given = TopicPolicies()
    masks.apply(plan.mask, given, source)
    violations += completion.check(given)
    operands = _operands(given, plan, list_operations, violations)
    violations += completion.complete(given, plan.ready)
    if violations:
        violations += rules.of_values(given, violations)  # so that all violations are reported at once
        raise invalid(*violations)
    new = documents.split(given)
    partial = plan.partial | {OFFLOAD} if is_redacted(given) else plan.partial
    values: dict[Setting, bytes | None] = {
        setting: new.get(setting) for setting in plan.by_setting if setting not in partial and setting not in operands
    }
    if plan.whole or plan.families:
        named = (setting for setting in new if plan.whole or documents.family(setting) in plan.families)
        values.update((setting, new[setting]) for setting in named if setting not in partial)
    return Change(plan, partial, operands, values, given)


def _implied(source: TopicPolicies, unknown: tuple[Violation, ...]) -> tuple[str, ...]:
    if sum(len(getattr(source, name)) for name in documents.MAPS) > masks.MAX_PATHS:
        problem = f"policies sets more than {masks.MAX_PATHS} entries: name whole maps in update_mask, or send several updates."
        raise invalid(Violation("policies", ViolationReason.TOO_MANY_PATHS, problem))
    paths = tuple(format_path(path) for path in masks.populated(source))
    if not paths and unknown:
        raise invalid(*unknown)
    if not paths:
        problem = 'Nothing is masked and nothing is set: name what to change in "update_mask", or set it in "policies".'
        raise invalid(Violation("update_mask", ViolationReason.EMPTY_MASK, problem))
    return paths


def _operands(
    given: TopicPolicies, plan: Plan, list_operations: Mapping[str, int], violations: list[Violation]
) -> dict[Setting, tuple[ListChange, bytes]]:
    operands: dict[Setting, tuple[ListChange, bytes]] = {}
    for name, number in list_operations.items():
        shown = name[:120]
        if name not in LISTS:
            reason, problem = ViolationReason.NOT_A_LIST, f'"{shown}" is not a list field; the list fields are: {", ".join(sorted(LISTS))}.'
        elif number not in _LIST_CHANGES:
            reason, problem = (
                ViolationReason.UNKNOWN_LIST_OPERATION,
                f'"{name}" has the operation {number}, which this server does not know.',
            )
        elif (name,) not in plan.mask and not (plan.whole and _LIST_CHANGES[number] is None):
            reason, problem = (
                ViolationReason.NOT_IN_MASK,
                f'"{name}" has an operation but is not named in the mask: name it, or remove the operation.',
            )
        elif (list_change := _LIST_CHANGES[number]) is None:
            continue
        elif not getattr(given, name):
            reason, problem = ViolationReason.NO_ELEMENTS, f'"{name}" has no elements to add or remove: give some in "policies".'
        else:
            only = TopicPolicies()
            getattr(only, name).extend(getattr(given, name))
            operands[name] = list_change, documents.split(only)[name]
            continue
        violations.append(Violation(f"list_operations.{format_path((shown,))}", reason, problem))
    return operands


def _combined(value: bytes | None, change: ListChange, operand: bytes) -> bytes | None:
    return documents.union(value, operand) if change is ListChange.UNION else documents.subtract(value, operand)
