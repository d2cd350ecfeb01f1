"""Rules that compare retention and backlog quotas: a quota must be below retention (``AdminResource.checkBacklogQuota``).

The comparisons are those of the admin API. A quota that is set is compared with the retention of the same document, else with that of the
namespace. If a quota is removed, the brokers' default quota is compared instead. Retention that is set is compared with each quota of the
same document, else with that of the namespace, else with the brokers' default. Both limits of a quota are compared, whatever its type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from topicpolicies.v1.policies_pb2 import BacklogQuota, RetentionPolicies, TopicPolicies

from .judging import Judged, blamed
from .values import Problem

_FIELD = "back_log_quota_map"
_KINDS = ("destination_storage", "message_age")
_MEGABYTE = 1024 * 1024
_Levels: TypeAlias = tuple[TopicPolicies | None, ...]


def quota_below_retention(judged: Judged) -> Iterator[Problem]:
    """Checks that a quota that changed is smaller than the retention that applies."""
    retention = _retention(judged.policies) or (_retention(judged.facts.namespace) if judged.facts.namespace is not None else None)
    if retention is None:
        return
    for kind in _KINDS:
        if f"{_FIELD}/{kind}" in judged.changed:
            quota = _quota(kind, (judged.policies, _default(judged)))
            if quota is not None and (clash := _clash(quota, retention)):
                yield blamed(_FIELD, kind), f"The backlog quota {kind} {clash}: lower the quota, or raise retention first."


def retention_above_quota(judged: Judged) -> Iterator[Problem]:
    """Checks that retention that changed is larger than the quotas that apply."""
    retention = _retention(judged.policies)
    if retention is None or "retention_policies" not in judged.changed:
        return
    for kind in _KINDS:
        if f"{_FIELD}/{kind}" not in judged.changed:  # else ``quota_below_retention`` reports it
            quota = _quota(kind, (judged.policies, judged.facts.namespace, _default(judged)))
            if quota is not None and (clash := _clash(quota, retention)):
                yield blamed("retention_policies"), f"The backlog quota {kind} {clash}: raise retention, or lower the quota first."


def _retention(policies: TopicPolicies) -> RetentionPolicies | None:
    return policies.retention_policies if policies.HasField("retention_policies") else None


def _default(judged: Judged) -> TopicPolicies | None:
    return judged.facts.broker.policies if judged.facts.broker is not None else None


def _quota(kind: str, levels: _Levels) -> BacklogQuota | None:
    return next((level.back_log_quota_map[kind] for level in levels if level is not None and kind in level.back_log_quota_map), None)


def _clash(quota: BacklogQuota, retention: RetentionPolicies) -> str:
    """Returns how a quota conflicts with retention, as part of a sentence; "" if it does not."""
    megabytes, minutes = retention.retention_size_in_mb, retention.retention_time_in_minutes
    if megabytes > 0 and quota.limit_size >= megabytes * _MEGABYTE:
        return f"of {quota.limit_size} bytes is not below the retention of {megabytes} MB"
    if minutes > 0 and quota.limit_time >= minutes * 60:
        return f"of {quota.limit_time} s is not below the retention of {minutes} minutes"
    return ""
