"""Producer names: they tell which cluster an event comes from, and who leads.

A sidecar that leads a log chooses its producer's name, ``topicpolicies/CLUSTER/ID/ADDRESS``. So every event that it writes, and the
brokers' statistics of the topic, contain the address at which clients reach it.
"""

from __future__ import annotations

import re
import uuid
from functools import lru_cache

_GENERATED = re.compile(r"(.+)-\d+-\d+", re.ASCII)
_LEADER = re.compile(r"topicpolicies/([^/]+)/[0-9a-f]+/(.+)", re.ASCII)


@lru_cache(4_096)
def origin_of(producer: str) -> str:
    """The cluster in which a producer writes; "" if its name does not tell.

    A producer without a name of its own (those of brokers, and of sidecars that don't lead) gets one from the broker that it connects to:
    the cluster's name and two numbers (``BrokerService.generateUniqueProducerName``). Replicators keep the name in the messages that they
    copy.
    """
    match = _LEADER.fullmatch(producer) or _GENERATED.fullmatch(producer)
    return match[1] if match else ""


def leader_name(cluster: str, address: str) -> str:
    """Makes a new name for the producers of a leader in ``cluster`` that clients reach at ``address``."""
    return f"topicpolicies/{cluster}/{uuid.uuid4().hex}/{address}"


@lru_cache(4_096)
def leader_of(producer: str) -> str:
    """The address at which clients reach the leader with a producer of this name; "" if it is not a leader's name."""
    match = _LEADER.fullmatch(producer)
    return match[2] if match else ""
