"""What is told of a healing: a line in the log, with before, after, and the event that caused it."""

from __future__ import annotations

import logging

from ..namespaces.activity import Repair
from ..namespaces.wording import difference, event_in_words

_LOG = logging.getLogger(__name__)


def tell_of_healing(repair: Repair, published: bool) -> None:
    """Tells of a repair that was published, or would have been if anything might be written."""
    verb = "healed" if published else "would heal"
    name = f"{repair.key.topic} ({repair.key.scope.name})"
    cause = "it was so when the log was opened" if repair.cause is None else f"because of {event_in_words(repair.cause)}"
    _LOG.info("%s %s: %s; %s", verb, name, difference(repair.before, repair.after), cause)
