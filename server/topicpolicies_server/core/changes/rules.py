"""Pulsar's own rules: what the brokers' admin API refuses. They are judged where an update is computed.

A rule looks at the document *after* a change, and only at settings that the change alters: a value that is there already was accepted
before, and writing back what was read changes nothing. All violations of a request are reported at once. docs/rules.md lists where the
service differs from the admin API, and why.

A rule that compares several settings makes an update depend on settings that it does not change. The event carries their digests
(``Judgement.reads``), and if the settings have changed by the time the event is folded, it does not count, and the update is judged again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..errors import Kind, PolicyError, Violation, breaks_rules, invalid
from ..names import PolicyKey, Scope
from ..policies.documents import Document, Setting, digest, family, split
from ..policies.facts import UNKNOWN, Facts, Need
from .plan import Plan
from .rule_table import COUNTS, RULED, RULES, RULES_OF, SHORTEST_NEGATIVE, Judged, Rule

__all__ = ["RULES", "Judged", "Judgement", "Rule", "judge", "needs", "of_values", "refused"]

_QUOTAS: frozenset[Setting] = frozenset({"back_log_quota_map/destination_storage", "back_log_quota_map/message_age"})
_RETENTION: Setting = "retention_policies"
_CLUSTERS: Setting = "replication_clusters"
_ANYTHING = PolicyKey("persistent://any/any/any", Scope.LOCAL)


class Judgement(NamedTuple):
    """What the rules say about a change."""

    found: Sequence[tuple[Rule, Violation]]
    """Every violation of the document that the change makes, with the rule that it violates."""
    reads: Mapping[Setting, str]
    """Digests of the settings that the judgement depends on, besides those that the change sets (``Stamp.reads``)."""


_FINE = Judgement((), {})


def judge(
    key: PolicyKey, changed: Sequence[Setting], before: Document | None, after: Document, facts: Facts | None, operands: Collection[Setting]
) -> Judgement:
    """Judges a change that alters the settings ``changed``.

    ``facts``: None: nothing is known. ``operands``: the lists that the change does not replace.
    """
    ruled = [
        setting
        for setting in changed  # the most frequent changes are of counts, whose size shows that they are not negative: none is parsed
        if (len(after.get(setting, b"")) >= SHORTEST_NEGATIVE if setting in COUNTS else family(setting) in RULED)
    ]
    if not ruled and not operands:
        return _FINE
    relied: set[Setting] = set()
    if _RETENTION in ruled:
        relied.update(_QUOTAS)
    if not _QUOTAS.isdisjoint(ruled):
        relied.add(_RETENTION)
    if key.scope is Scope.LOCAL and _CLUSTERS in operands:
        relied.add(_CLUSTERS)  # applied to another list, the operation could leave it without the local cluster
    old: Document = before or {}
    judged = Judged(key, ruled, after, facts or UNKNOWN)
    rules = dict.fromkeys(rule for setting in ruled for rule in RULES_OF[family(setting)])
    found = [(rule, violation) for rule in rules for violation in rule.violations(judged)]
    return Judgement(found, {setting: digest(old.get(setting)) for setting in relied})


def refused(found: Sequence[tuple[Rule, Violation]], others: Sequence[Violation] = ()) -> PolicyError:
    """Returns the error for violations: INVALID_ARGUMENT if one of them does not depend on the cluster, else FAILED_PRECONDITION.

    ``others``: those that are of no rule, which make it an INVALID_ARGUMENT.
    """
    fault = bool(others) or any(rule.kind is Kind.INVALID_ARGUMENT for rule, _ in found)
    return (invalid if fault else breaks_rules)(*others, *(violation for _, violation in found))


def of_values(given: TopicPolicies, known: Sequence[Violation]) -> list[Violation]:
    """Judges a request's values by the rules that need no facts, without a document. Fields with ``known`` violations are left out."""
    blamed = {violation.field.split(".")[1] for violation in known if violation.field.startswith("policies.")}
    settings = {setting: value for setting, value in split(given).items() if family(setting) in RULED and family(setting) not in blamed}
    judged = Judged(_ANYTHING, list(settings), settings, UNKNOWN)
    rules = (rule for rule in RULES if rule.needs is Need.NOTHING and rule.field not in blamed)
    return [violation for rule in rules for violation in rule.violations(judged)]


def needs(plan: Plan) -> Need:
    """Returns the kinds of facts that judging a change may need; ``plan``: that of its mask."""
    return _needs(plan.whole, plan.settings, plan.families)


@lru_cache(4_096)
def _needs(whole: bool, settings: frozenset[Setting], fields: frozenset[str]) -> Need:
    families = RULED if whole else {family(setting) for setting in settings} | fields
    needed = Need.NOTHING
    for name in families:
        for rule in RULES_OF.get(name, ()):
            needed |= rule.needs
    return needed
