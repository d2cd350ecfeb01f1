"""What a producer's name tells: which cluster an event comes from, and who leads.

A sidecar that is a log's one writer names its producer itself, ``topicpolicies/CLUSTER/ID/ADDRESS``, so that every event of it, and the
brokers' statistics of the topic, say where its clients reach it.
"""

from __future__ import annotations

import re
import uuid
from functools import lru_cache

_GENERATED = re.compile(r"(.+)-\d+-\d+", re.ASCII)
_LEADER = re.compile(r"topicpolicies/([^/]+)/[0-9a-f]+/(.+)", re.ASCII)


@lru_cache(4_096)
def origin_of(producer: str) -> str:
    """The cluster whose broker named a producer; "" if the name does not tell.

    Producers that choose no name (brokers', and ours that are not leaders') get one from the broker that they connect to: its cluster and
    two numbers (``BrokerService.generateUniqueProducerName``). Replicators leave the name in the messages that they copy.
    """
    match = _LEADER.fullmatch(producer) or _GENERATED.fullmatch(producer)
    return match[1] if match else ""


def leader_name(cluster: str, address: str) -> str:
    """A new name for the producer of a leader in a cluster, whose clients reach it at ``address``."""
    return f"topicpolicies/{cluster}/{uuid.uuid4().hex}/{address}"


@lru_cache(4_096)
def leader_of(producer: str) -> str:
    """Where clients reach the leader that named a producer; "" if none did."""
    match = _LEADER.fullmatch(producer)
    return match[2] if match else ""
