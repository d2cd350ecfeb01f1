"""How long writers work."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from .acknowledged import Acknowledged

_MOST_SECONDS = 60.0


class Term:
    """A number of seconds, prolonged by up to a minute until each kind of writer has made enough changes for conflicts.

    Use it as a context around the writers: if one of them fails, the term is over for the others.
    """

    def __init__(self, acknowledged: Acknowledged, seconds: float, least: Mapping[str, int]) -> None:
        """Begins now. ``least``: how many acknowledged changes are enough, by kind of writer."""
        self._acknowledged = acknowledged
        self._least = least
        self._began = time.monotonic()
        self._until = self._began + seconds
        self._end = self._until + _MOST_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long the term has lasted."""
        return time.monotonic() - self._began

    @property
    def over(self) -> bool:
        """Whether writers should stop."""
        now = time.monotonic()
        changes = self._acknowledged.changes
        return now >= self._end or (now >= self._until and all(changes[who] >= least for who, least in self._least.items()))
