"""The Python part of the test with all languages at once: it changes its own settings of one topic, and tells of every change."""

from __future__ import annotations

import os
import random
import sys
import time

from topicpolicies import Client, Conflict, TopicPolicies, UpdateResult

ENTRY = "of python.1"  # a key that needs backticks


def main(target: str, topic: str, turns: int) -> None:
    """Waits for a line on standard input, then makes so many changes."""
    told = {"traceparent": os.environ.get("TRACEPARENT", "")}  # what an instrumentation does: each call tells in which trace it is made
    with Client(target, actor="python", metadata=[(key, value) for key, value in told.items() if value]) as client:
        client.get(topic)
        print("ready", flush=True)
        sys.stdin.readline()
        runs: list[int] = []
        for turn in range(1, turns + 1):
            result = _change(client, topic, turn, runs)
            print(f"changed {turn} {result.previous_version} {result.version}", flush=True)
            time.sleep(random.uniform(0, 0.06))
        print(f"runs {len(runs)}", flush=True)


def _change(client: Client, topic: str, turn: int, runs: list[int]) -> UpdateResult:
    """Even turns are edits of an entry of a map, and odd ones updates of a field."""
    if turn % 2 == 1:
        return client.update(topic, max_producer_per_topic=turn)

    def edit(policies: TopicPolicies) -> None:
        runs.append(turn)
        policies.subscription_policies[ENTRY].dispatch_rate.dispatch_throttling_rate_in_msg = turn

    while True:
        try:
            return client.edit(topic, edit)
        except Conflict:
            continue  # that one was refused for good: nothing was lost


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
