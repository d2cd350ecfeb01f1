"""The document that rules judge, and the request's field that a violation names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from topicpolicies.masks import format_path
from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..names import PolicyKey, Scope, parse_topic
from ..policies.documents import Setting, Settings, family, join
from ..policies.facts import Facts

_TOGETHER = ("retention_policies", "back_log_quota_map/destination_storage", "back_log_quota_map/message_age")
"""Settings that rules compare: if one of them changed, all are parsed."""


class Judged:
    """A document after a change, parsed as far as rules need it."""

    def __init__(self, key: PolicyKey, changed: Sequence[Setting], after: Settings, facts: Facts) -> None:
        """Parses only the settings that rules will look at.

        Args:
            key: the policy key of the document.
            changed: the settings that the change alters, among those that have rules.
            after: the document after the change.
            facts: what is known of the cluster.
        """
        self.key = key
        self.changed = frozenset(changed)
        self.facts = facts
        looked_at = dict.fromkeys((*changed, *(_TOGETHER if not self.changed.isdisjoint(_TOGETHER) else ())))
        self.policies: TopicPolicies = join({setting: after[setting] for setting in looked_at if setting in after})

    @property
    def local(self) -> bool:
        """Whether this is the LOCAL document."""
        return self.key.scope is Scope.LOCAL

    @cached_property
    def tenant(self) -> str:
        """The topic's tenant."""
        return parse_topic(self.key.topic).tenant

    def keys(self, field: str) -> list[str]:
        """Returns the keys of a map field's entries that changed and are present."""
        present = getattr(self.policies, field)
        return [setting.partition("/")[2] for setting in sorted(self.changed) if family(setting) == field and _key(setting) in present]


def blamed(*path: str) -> str:
    """Returns the request's field of a path in the document, for a violation."""
    return f"policies.{format_path(path)}"


def _key(setting: Setting) -> str:
    return setting.partition("/")[2]
