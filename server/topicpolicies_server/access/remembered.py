"""Tokens that were verified, with whose they are: a caller's calls have the same one for minutes.

Only tokens that hold are remembered, so nobody fills the memory who can't sign them.
"""

from __future__ import annotations

from collections import OrderedDict

from .caller import Caller
from .refusals import expired

MOST = 1_024
"""Tokens that are remembered; the one that was remembered first makes room for another."""


class Remembered:
    """Callers by their tokens."""

    def __init__(self) -> None:
        self._callers: OrderedDict[str, Caller] = OrderedDict()

    def __len__(self) -> int:
        return len(self._callers)

    def get(self, token: str, now: float) -> Caller | None:
        """Whose token it is, if it is remembered.

        Raises:
            PolicyError: CREDENTIALS_EXPIRED, it has expired since.
        """
        caller = self._callers.get(token)
        if caller is not None and caller.expires_at is not None and now >= caller.expires_at:
            del self._callers[token]
            raise expired()
        return caller

    def put(self, token: str, caller: Caller) -> Caller:
        """Remembers one; returns its caller."""
        if len(self._callers) >= MOST:
            self._callers.popitem(last=False)
        self._callers[token] = caller
        return caller

    def clear(self) -> None:
        """Forgets all: the keys are others."""
        self._callers.clear()
