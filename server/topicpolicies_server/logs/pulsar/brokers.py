"""What the modules of a Pulsar change log share: the clients for the brokers, what is known of the cluster, timeouts and bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ...config import RECALLED_ENTRIES
from .admin import Admin
from .client import PulsarClient
from .facts import PulsarFacts
from .topics import Topics


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarLimits:
    """Timeouts and bounds. The defaults suit a log of some hundred thousand topics; tests use smaller ones for the most part."""

    in_flight: int = 10_000
    """How many events of one namespace may have no outcome yet; more are refused."""
    send_seconds: float = 10.0
    """How long an event may wait for a producer, and then for its acknowledgement."""
    idle_producer_seconds: float = 300.0
    """How long a producer may be unused before it is closed, as brokers do with theirs."""
    received: int = 1_000
    """How many messages of a partition the library may have received that were not taken yet."""
    recalled: int = RECALLED_ENTRIES
    """How many entries of a partition before its last compaction an opening reads as they were written, if they still stand."""
    stuck_seconds: float = 30.0
    """How long nothing may come during the initial replay."""
    creation_seconds: float = 5.0
    """How often to check whether a log that does not exist was created."""
    check_seconds: float = 30.0
    """How often to check whether a log is still the one that was opened."""
    reconnect_seconds: float = 15.0
    """How long a log may be without its connection while brokers say that it exists."""
    close_seconds: float = 5.0
    """How long closing waits for outcomes, and then again for the brokers."""
    facts_seconds: float = 60.0
    """How long the facts about the cluster are used before they are requested again."""


class Brokers(NamedTuple):
    """The clients for the brokers, the limits, and what is known of the cluster."""

    client: PulsarClient
    admin: Admin
    topics: Topics
    facts: PulsarFacts
    limits: PulsarLimits
    advertised: Callable[[], str] | None = None
    """Set if logs are to have one writer at a time: returns where clients reach this process."""
