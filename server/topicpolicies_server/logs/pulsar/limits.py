"""Every limit of a Pulsar change log."""

from __future__ import annotations

from dataclasses import dataclass

from ...config import RECALLED_ENTRIES


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarLimits:
    """The defaults suit a log of some hundred thousand topics; tests want most of them smaller."""

    in_flight: int = 10_000
    """Events of one namespace without an outcome; more are refused."""
    send_seconds: float = 10.0
    """How long an event may wait for a producer, and then for its acknowledgement."""
    idle_producer_seconds: float = 300.0
    """After which time without events a producer is closed, as brokers do."""
    received: int = 1_000
    """Messages of a partition that may have been received and not read."""
    recalled: int = RECALLED_ENTRIES
    """Entries of a partition that are read as they were although they are compacted, if they still stand in its ledgers."""
    stuck_seconds: float = 30.0
    """How long nothing may come while a log is being read for the first time."""
    creation_seconds: float = 5.0
    """How often to look whether a log that did not exist exists now."""
    check_seconds: float = 30.0
    """How often to look whether a log is still the one that was opened."""
    reconnect_seconds: float = 15.0
    """How long a log may go without its connection while brokers say that it is there."""
    disconnected_seconds: float = 60.0
    """How long a log may go without its connection at all."""
    close_seconds: float = 5.0
    """How long closing waits for outcomes, and then for the brokers."""
    facts_seconds: float = 60.0
    """How long what the brokers say of themselves is believed."""
