"""Documents in Protobuf's text format, facts, and the violations that the rules find."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf import text_format

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.changes.change import Change, compile_change
from topicpolicies_server.core.changes.rules import Judgement, judge
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Document, split
from topicpolicies_server.core.policies.facts import BrokerFacts, Facts

TOPIC = "persistent://acme/orders/one"


def policies(text: str) -> TopicPolicies:
    """Returns a document."""
    return text_format.Parse(text, TopicPolicies())


FACTS = Facts(
    cluster="here",
    clusters={"here": frozenset(), "there": frozenset({"peer"}), "peer": frozenset({"there"}), "forbidden": frozenset()},
    allowed_clusters=frozenset({"here", "there", "peer"}),
    namespace=policies('replication_clusters: "here" replication_clusters: "there" replication_clusters: "peer"'),
    broker=BrokerFacts(
        policies('back_log_quota_map { key: "destination_storage" value { limit_size: -1 limit_time: -1 } }'),
        max_ensemble=5,
        max_write_quorum=4,
        max_ack_quorum=3,
        max_message_size=1000,
        entry_filters=frozenset({"known"}),
    ),
    missing_topics=frozenset({"persistent://acme/orders/missing", "non-persistent://acme/orders/shadow"}),
)
"""Facts of which none is missing."""


def judged(change: Change, before: Document | None, facts: Facts | None, key: PolicyKey = PolicyKey(TOPIC, Scope.LOCAL)) -> Judgement:
    """Applies a change to a document, and judges it."""
    applied = change.applied(before)
    return judge(key, applied.changed, before, applied.document, facts, change.operands)


def violated(
    text: str,
    *,
    before: str | None = None,
    scope: Scope = Scope.LOCAL,
    facts: Facts | None = FACTS,
    topic: str = TOPIC,
    mask: Sequence[str] = ("*",),
) -> dict[str, str]:
    """Returns the violations of an update: reasons, by field of the request.

    Args:
        text: the update's values.
        before: the document before the update; None: there is none.
        scope: the scope of the policy key.
        facts: the known facts.
        topic: the topic of the policy key.
        mask: the update's paths.
    """
    head = split(policies(before)) if before is not None else None
    change = compile_change(policies(text), mask, {})
    found = judged(change, head, facts, PolicyKey(topic, scope)).found
    return {violation.field: violation.reason for _, violation in found}
