"""From when to when brokers showed a document wrongly, and how long after each restart."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import NamedTuple

from topicpolicies_server.core.policies.events import Event, Placed

from .raw_log import RawLog


class Wrong(NamedTuple):
    """A time in which brokers showed a document wrongly, in milliseconds since 1970 by the log's clock."""

    topic: str
    since: int
    until: int


class TimedLog(RawLog):
    """A raw log that keeps the times in which each document was wrong."""

    def __init__(self, service_url: str, admin_url: str, namespace: str) -> None:
        super().__init__(service_url, admin_url, namespace)
        self._past: list[Wrong] = []

    @property
    def wrong_times(self) -> list[Wrong]:
        """All wrong times; those that are not over end now."""
        now = now_ms()
        return [*self._past, *(Wrong(key.topic, since, now) for key, since in self._wrong_since.items())]

    def _take(self, placed: Placed, event: Event) -> None:
        since = self._wrong_since.get(event.key)
        super()._take(placed, event)
        if since is not None and event.key not in self._wrong_since:
            self._past.append(Wrong(event.key.topic, since, placed.published_at))


def now_ms() -> int:
    """Returns the time now, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def wrong_after(wrongs: Sequence[Wrong], ended: Sequence[int], over: int) -> list[int]:
    """Returns the longest time for which a document was wrong between each of these moments and the next one.

    Args:
        wrongs: the times in which documents were wrong.
        ended: the moments at which processes were ended, in order.
        over: the end of the run.
    """
    longest = []
    for since, until in itertools.pairwise([*ended, over]):
        parts = (min(each.until, until) - max(each.since, since) for each in wrongs)
        longest.append(max([0, *parts]))
    return longest
