"""How fast brokers are asked which namespaces there are.

One question at a time, a limited number in a second, and for no more than a quarter of the time while answers take less than 1.7 s: brokers
that take long to answer, or don't answer, are asked less. Every question counts, whatever it is about.
"""

from __future__ import annotations

_REST = 3.0
"""After an answer the guard rests for this many times as long as it took."""
LONGEST_SECONDS = 5.0
"""The longest of these rests, so that brokers that answer again are noticed soon."""


class Pace:
    """The pauses between questions."""

    def __init__(self, per_second: float) -> None:
        """``per_second``: the most questions in a second."""
        self._least = 1.0 / per_second

    def pause(self, took: float) -> float:
        """Returns how many seconds to wait after an answer, or its failure, that took ``took`` seconds."""
        return max(self._least - took, min(_REST * took, LONGEST_SECONDS))
