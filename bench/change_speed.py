"""The cost of compiling and applying a masked change.

python bench/change_speed.py
"""

from __future__ import annotations

import sys
import time
import timeit
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "clients" / "python"), str(ROOT / "server")]

from topicpolicies.v1.policies_pb2 import DispatchRate, RetentionPolicies, TopicPolicies  # noqa: E402
from topicpolicies_server.core import rules  # noqa: E402
from topicpolicies_server.core.changes import plan  # noqa: E402
from topicpolicies_server.core.changes.change import compile_change  # noqa: E402
from topicpolicies_server.core.names import PolicyKey, Scope  # noqa: E402
from topicpolicies_server.core.policies.documents import split  # noqa: E402

KEY = PolicyKey("persistent://bench/bench/one", Scope.LOCAL)
RATE = DispatchRate(
    dispatch_throttling_rate_in_byte=-1, dispatch_throttling_rate_in_msg=100, rate_period_in_second=1, relative_to_publish_rate=False
)


def document() -> TopicPolicies:
    """Returns a document of six settings."""
    policies = TopicPolicies(max_producer_per_topic=3, dispatch_rate=RATE)
    policies.retention_policies.CopyFrom(RetentionPolicies(retention_time_in_minutes=60, retention_size_in_mb=100))
    for name in ("a", "b", "my-sub"):
        policies.subscription_policies[name].dispatch_rate.CopyFrom(RATE)
    return policies


def microseconds(what: Callable[[], object], times: int) -> float:
    """Returns the best of nine measurements, in processor time."""
    return min(timeit.repeat(what, timer=time.process_time, number=times, repeat=9)) / times * 1e6


def measure(name: str, policies: TopicPolicies, paths: Sequence[str]) -> None:
    """Measures one kind of change, and prints a line."""
    head = split(document())
    change = compile_change(policies, paths, {})
    after = change.apply(head)

    def compile_unseen() -> None:
        plan._remembered_plan.cache_clear()  # noqa: SLF001
        compile_change(policies, paths, {})

    figures = (
        microseconds(lambda: compile_change(policies, paths, {}), 4_000),
        microseconds(compile_unseen, 1_000),
        microseconds(lambda: change.apply(head), 4_000),
        microseconds(lambda: change.reads(head), 4_000),
        microseconds(lambda: plan.touched_by(change.paths, head, after), 4_000),
        microseconds(lambda: (rules.judge(KEY, change, head, after, None), rules.reads(KEY, change, head, after)), 4_000),
    )
    print(f"{name:24}" + "".join(f"{figure:12.1f}" for figure in figures))


def main() -> None:
    """Measures the usual kinds of changes."""
    print(f"{'microseconds':24}" + "".join(f"{title:>12}" for title in ("compile", "(new mask)", "apply", "reads", "touched", "rules")))
    measure("one scalar", TopicPolicies(max_producer_per_topic=9), ["max_producer_per_topic"])
    measure("one without a rule", TopicPolicies(deduplication_enabled=True), ["deduplication_enabled"])
    leaf = TopicPolicies(retention_policies=RetentionPolicies(retention_time_in_minutes=9))
    measure("one retention leaf", leaf, ["retention_policies.retention_time_in_minutes"])
    entry = TopicPolicies()
    entry.subscription_policies["my-sub"].dispatch_rate.dispatch_throttling_rate_in_msg = 9
    measure("one subscription entry", entry, ["subscription_policies.`my-sub`.dispatch_rate"])
    measure("one subscription leaf", entry, ["subscription_policies.`my-sub`.dispatch_rate.dispatch_throttling_rate_in_msg"])
    measure("the whole document", document(), ["*"])


if __name__ == "__main__":
    main()
