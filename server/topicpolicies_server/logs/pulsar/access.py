"""What the parts of a Pulsar change log share: the ways to the brokers, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...core.reasons import Reason
from ..change_log import LogError
from .admin import Admin
from .admin.facts import PulsarFacts
from .admin.topics import Topics
from .client import PulsarClient
from .contacts import Contacts
from .limits import PulsarLimits
from .reading.not_handed_over import NotHandedOver


class Access(NamedTuple):
    """The ways to the brokers."""

    client: PulsarClient
    admin: Admin
    topics: Topics
    facts: PulsarFacts
    limits: PulsarLimits
    advertised: Callable[[], str] | None = None
    """If logs are to have one writer at a time: where clients reach this process."""
    doubt: Callable[[], None] = lambda: None
    """To be called when an event is refused because of ``facts``, so that they are asked for again (``upgrades``)."""
    not_handed_over: NotHandedOver | None = None
    """The messages that this process was not given when it read; None: that is not remembered."""
    contacts: Contacts = Contacts()
    """The connections that there are."""

    def heed(self, error: LogError) -> None:
        """An event was refused."""
        if error.reason == Reason.DIALECT_CANNOT_EXPRESS:
            self.doubt()
