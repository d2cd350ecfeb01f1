"""Pulsar's own rules: what the brokers' admin API refuses, judged where an update is computed.

A rule looks at the document *after* a change, and only at settings that the change really alters: what is there already was let in by
somebody, and reading and writing back changes nothing. Rules are pure functions (``values``, ``quotas``, ``replication``,
``shadows``); ``table.RULES`` names each with its field, status, reason and the admin API's words for it. All violations of a request are
told at once. ``docs/rules.md`` lists where the service differs from the admin API, and why.

Rules that look at several settings make the result depend on what it was computed from: ``reads`` names those settings, so that the
event carries their digests and the fold voids it if they changed meanwhile; its writer then judges again.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import lru_cache
from typing import Protocol

from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..errors import Kind, PolicyError, Violation, refusal
from ..names import PolicyKey, Scope
from ..policies.documents import Setting, Settings, differing, digest, family, split
from ..policies.facts import UNKNOWN, Facts, Need
from ..reasons import Reason
from .judging import Judged
from .table import COUNTS, RULED, RULES, RULES_OF, SHORTEST_NEGATIVE, Rule

__all__ = ["RULES", "Judged", "Naming", "Rule", "changed_settings", "judge", "needs", "of_values", "reads", "refused"]

_QUOTAS: tuple[Setting, ...] = ("back_log_quota_map/destination_storage", "back_log_quota_map/message_age")
_RETENTION: Setting = "retention_policies"
_READ_TOGETHER = frozenset({_RETENTION, *_QUOTAS})
_CLUSTERS: Setting = "replication_clusters"
_ANYTHING = PolicyKey("persistent://any/any/any", Scope.LOCAL)
_OF_NOTHING: tuple[tuple[Rule, Violation], ...] = ()


class Naming(Protocol):
    """What is judged: what a change names, whatever it does to that (``core/changes`` has the changes, and asks for ``of_values``)."""

    @property
    def whole(self) -> bool:
        """Whether the document is replaced."""

    @property
    def settings(self) -> frozenset[Setting]:
        """The settings that are named, apart from the families'; empty if ``whole``."""

    @property
    def families(self) -> frozenset[str]:
        """The map fields of which all entries are replaced."""

    @property
    def operands(self) -> Container[Setting]:
        """The lists that are not replaced."""


def judge(
    key: PolicyKey, change: Naming, before: Settings | None, after: Settings, facts: Facts | None
) -> Sequence[tuple[Rule, Violation]]:
    """What is wrong with the document that a change makes.

    Args:
        key: whose document it is.
        change: the change.
        before: the document before it.
        after: the document after it.
        facts: what is known of the cluster; None: nothing.

    Returns:
        Every violation, with the rule that it violates; empty if there is none.
    """
    changed = changed_settings(change, before, after)
    if (
        change.settings and not change.families and change.settings <= COUNTS
    ):  # what is asked for most: nothing need be parsed to see that a number is not negative
        changed = [setting for setting in changed if len(after.get(setting, b"")) >= SHORTEST_NEGATIVE]
    if not changed:
        return _OF_NOTHING
    judged = Judged(key, changed, after, facts or UNKNOWN)
    rules = dict.fromkeys(rule for setting in changed for rule in RULES_OF[family(setting)])
    return [(rule, violation) for rule in rules for violation in rule.violations(judged)]


def refused(found: Sequence[tuple[Rule, Violation]], others: Sequence[Violation] = ()) -> PolicyError:
    """The error for violations: INVALID_ARGUMENT if one of them is, whatever the cluster looks like; else FAILED_PRECONDITION.

    Args:
        found: violations of rules.
        others: what else is wrong with the request.
    """
    invalid = bool(others) or any(rule.kind is Kind.INVALID_ARGUMENT for rule, _ in found)
    kind = Kind.INVALID_ARGUMENT if invalid else Kind.FAILED_PRECONDITION
    return refusal(kind, Reason.INVALID_UPDATE, *others, *(violation for _, violation in found))


def of_values(given: TopicPolicies, known: Sequence[Violation]) -> list[Violation]:
    """What is wrong with a request's values whatever else there is, but for the fields of which something is known to be wrong.

    Args:
        given: the values.
        known: what was found already.
    """
    blamed = {violation.field.split(".")[1] for violation in known if violation.field.startswith("policies.")}
    settings = {setting: value for setting, value in split(given).items() if family(setting) in RULED and family(setting) not in blamed}
    judged = Judged(_ANYTHING, list(settings), settings, UNKNOWN)
    rules = (rule for rule in RULES if rule.needs is Need.NOTHING and rule.field not in blamed)
    return [violation for rule in rules for violation in rule.violations(judged)]


def changed_settings(change: Naming, before: Settings | None, after: Settings) -> list[Setting]:
    """The settings that a change alters, among those that have rules."""
    if change.whole or change.families:
        named: Sequence[Setting] = differing(before, after)
        return [setting for setting in named if family(setting) in RULED]
    old: Settings = before or {}
    return [setting for setting in change.settings if family(setting) in RULED and after.get(setting) != old.get(setting)]


def needs(change: Naming) -> Need:
    """The facts that judging a change may need."""
    return _needs(change.whole, change.settings, change.families)


@lru_cache(4_096)
def _needs(whole: bool, settings: frozenset[Setting], fields: frozenset[str]) -> Need:
    families = RULED if whole else {family(setting) for setting in settings} | fields
    needed = Need.NOTHING
    for name in families:
        for rule in RULES_OF.get(name, ()):
            needed |= rule.needs
    return needed


def reads(key: PolicyKey, change: Naming, before: Settings | None, after: Settings) -> dict[Setting, str]:
    """What the judgement relied on besides what the change sets, as digests by setting (``Stamp.reads``)."""
    if not change.whole and not change.families and _READ_TOGETHER.isdisjoint(change.settings) and _CLUSTERS not in change.operands:
        return {}
    old: Settings = before or {}
    relied: set[Setting] = set()
    if after.get(_RETENTION) != old.get(_RETENTION):
        relied.update(_QUOTAS)
    if any(after.get(quota) != old.get(quota) for quota in _QUOTAS):
        relied.add(_RETENTION)
    if key.scope is Scope.LOCAL and _CLUSTERS in change.operands:
        relied.add(_CLUSTERS)  # replayed on another list, it could leave one without the local cluster
    return {setting: digest(old.get(setting)) for setting in relied}
