"""Whether an answer could be confirmed: a server that can't reach the change log says since when, beside what it answers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

UNCONFIRMED_KEY = "topicpolicies-unconfirmed-since"
"""The trailing metadata that says it: ISO 8601."""


def unconfirmed_since(trailing: Iterable[Any] | None) -> datetime | None:
    """Since when an answer can't be confirmed, in UTC; None: it could be, or nobody said what can be read.

    Args:
        trailing: the pairs of the call's trailing metadata.
    """
    for key, value in trailing or ():
        if key == UNCONFIRMED_KEY:
            try:
                told = datetime.fromisoformat(value)
            except (TypeError, ValueError):
                return None
            return told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
    return None
