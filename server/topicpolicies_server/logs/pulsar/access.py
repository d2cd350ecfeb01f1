"""What the modules of a Pulsar change log share: the clients for the brokers, and what is known of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...core.reasons import LogState
from ..change_log import LogError
from .admin import Admin
from .admin.facts import PulsarFacts
from .admin.topics import Topics
from .broker_connections import BrokerConnections
from .client import PulsarClient
from .limits import PulsarLimits


class Access(NamedTuple):
    """The clients for the brokers, the limits, and what is known of the cluster."""

    client: PulsarClient
    admin: Admin
    topics: Topics
    facts: PulsarFacts
    limits: PulsarLimits
    advertised: Callable[[], str] | None = None
    """Set if logs are to have one writer at a time: returns where clients reach this process."""
    invalidate_facts: Callable[[], None] = lambda: None
    """Called when an event is refused because of ``facts``, so that the facts are requested again (``upgrades``)."""
    connections: BrokerConnections = BrokerConnections()
    """Which connections there are."""

    def note_refusal(self, error: LogError) -> None:
        """Takes the error of an event that was refused: if the dialect is the reason, the facts are requested again."""
        if error.state is LogState.DIALECT:
            self.invalidate_facts()
