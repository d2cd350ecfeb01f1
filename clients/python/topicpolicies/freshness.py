"""Whether an answer is confirmed: a server that can't reach the change log reports since when, in the trailing metadata of the answer."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

UNCONFIRMED_KEY = "topicpolicies-unconfirmed-since"
"""The key of the trailing metadata; its value is a time in ISO 8601."""


def unconfirmed_since(trailing: Iterable[Any] | None) -> datetime | None:
    """Returns since when an answer can't be confirmed, in UTC; None: the answer is confirmed, or the time can't be read.

    Args:
        trailing: the pairs of the call's trailing metadata.
    """
    for key, value in trailing or ():
        if key == UNCONFIRMED_KEY:
            try:
                time = datetime.fromisoformat(value)
            except (TypeError, ValueError):
                return None
            return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return None
