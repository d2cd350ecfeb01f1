"""Tokens that were verified, with whose they are: a caller's calls have the same one for minutes.

A token is kept as a call's metadata have it, so that nothing of that is taken apart to find it.

Only tokens that hold are remembered, so nobody fills the memory who can't sign them.
"""

from __future__ import annotations

from collections import OrderedDict

from .caller import Caller
from .refusals import expired

USUAL = "Bearer "
"""How the metadata ``authorization`` of nearly every caller begins; before the token itself."""
MOST = 1_024
"""Tokens that are remembered; the one that was remembered first makes room for another."""


class Remembered:
    """Callers by their tokens."""

    def __init__(self) -> None:
        self.callers: OrderedDict[str, Caller] = OrderedDict()
        """By ``authorization``, as nearly every caller has it. Whoever looks into it looks at the caller's times, too."""

    def __len__(self) -> int:
        return len(self.callers)

    def get(self, token: str, now: float) -> Caller | None:
        """Whose token it is, if it is remembered, and its time has come.

        Raises:
            PolicyError: CREDENTIALS_EXPIRED, it has expired since.
        """
        caller = self.callers.get(USUAL + token)
        if caller is None or caller.begins_at <= now < caller.expires_at:
            return caller
        if now >= caller.expires_at:
            del self.callers[USUAL + token]
            raise expired()
        return None

    def put(self, token: str, caller: Caller) -> Caller:
        """Remembers one; returns its caller."""
        if len(self.callers) >= MOST:
            self.callers.popitem(last=False)
        self.callers[USUAL + token] = caller
        return caller

    def clear(self) -> None:
        """Forgets all: the keys are others."""
        self.callers.clear()
