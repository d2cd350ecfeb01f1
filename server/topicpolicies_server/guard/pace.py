"""How fast brokers are asked which namespaces there are.

One question at a time, at most so many in a second, and never for more than a quarter of the time: brokers that take long to answer, or
don't answer, are asked less. Every question counts, whatever it is about.
"""

from __future__ import annotations

_REST = 3.0
"""For so many times as long as an answer took nothing is asked."""
LONGEST_SECONDS = 5.0
"""For longer than this nobody waits, so that brokers that answer again are heard soon."""


class Pace:
    """The pauses between questions."""

    def __init__(self, per_second: float) -> None:
        """``per_second``: how many questions may be asked at the most."""
        self._least = 1.0 / per_second

    def pause(self, took: float) -> float:
        """How long to wait after an answer, or its failure, that took so many seconds."""
        return max(self._least - took, min(_REST * took, LONGEST_SECONDS))
