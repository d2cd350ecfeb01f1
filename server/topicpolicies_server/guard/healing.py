"""Logs each healing: one line, with the document before and after, and the event that caused it.

A healing may change no setting. If an event that changed nothing stands behind the head's own event in the log, brokers show the right
document, but a reader that knows nothing but this newest event would take the document for another version, or would not know a request
that was applied (``core/fold/fold``: a repair is due). Then the version and its requests are what is healed.
"""

from __future__ import annotations

import logging

from ..namespaces.activity import Repair
from ..namespaces.wording import difference, event_in_words

_LOG = logging.getLogger(__name__)


def tell_of_healing(repair: Repair, published: bool) -> None:
    """Logs a repair that was published, or would have been if anything might be written."""
    verb = "healed" if published else "would heal"
    name = f"{repair.key.topic} ({repair.key.scope.name})"
    cause = "it was so when the log was opened" if repair.cause is None else f"because of {event_in_words(repair.cause)}"
    _LOG.info("%s %s: %s; %s", verb, name, _healing(repair), cause)


def _healing(repair: Repair) -> str:
    if repair.before == repair.after:
        return f"no setting, but the log's newest event does not name version {repair.version} with all its requests"
    return difference(repair.before, repair.after)
