"""The Python part of tests with all languages at once: it changes settings of its own in one document and prints each change."""

from __future__ import annotations

import random
import sys
import time

from topicpolicies import ChangeResult, Client, PreconditionFailed, TopicPolicies

ENTRY = "of python.1"  # a key that has to be quoted with backticks


def main(target: str, topic: str, turns: int) -> None:
    """Waits for a line on standard input, and then makes ``turns`` changes."""
    with Client(target, actor="python") as client:
        client.get(topic)
        print("ready", flush=True)
        sys.stdin.readline()
        runs: list[int] = []
        for turn in range(1, turns + 1):
            result = _change(client, topic, turn, runs)
            print(f"changed {turn} {result.previous_version} {result.version}", flush=True)
            time.sleep(random.uniform(0, 0.06))
        print(f"runs {len(runs)}", flush=True)


def _change(client: Client, topic: str, turn: int, runs: list[int]) -> ChangeResult:
    """Makes one change: in an odd turn an update of a field, in an even one an edit of an entry of a map."""
    if turn % 2 == 1:
        return client.update(topic, max_producer_per_topic=turn)

    def edit(policies: TopicPolicies) -> None:
        runs.append(turn)
        policies.subscription_policies[ENTRY].dispatch_rate.dispatch_throttling_rate_in_msg = turn

    while True:
        try:
            return client.edit(topic, edit)
        except PreconditionFailed:
            continue  # the edit was refused and not made: it is repeated


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
