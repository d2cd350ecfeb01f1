"""Tokens that were verified, with the callers that they name: a caller's calls have the same token for minutes.

A token is stored as it is in the metadata of a call, so that a lookup takes nothing apart.

Only valid tokens are stored, so callers that can't sign tokens can't fill the memory.
"""

from __future__ import annotations

from collections import OrderedDict

from .caller import Caller
from .refusals import expired

USUAL = "Bearer "
"""What the metadata ``authorization`` of nearly every call begins with, before the token itself."""
MOST = 1_024
"""How many tokens are remembered; the one that was stored first makes room for another."""


class CallerCache:
    """Callers by their tokens."""

    def __init__(self) -> None:
        self.callers: OrderedDict[str, Caller] = OrderedDict()
        """Callers by the metadata ``authorization``, in its usual form. Code that looks a caller up here must check the caller's times."""

    def __len__(self) -> int:
        return len(self.callers)

    def get(self, token: str, now: float) -> Caller | None:
        """Returns the caller of a token; None: it is not remembered, or not valid yet.

        Raises:
            PolicyError: CREDENTIALS_EXPIRED: the token has expired since.
        """
        caller = self.callers.get(USUAL + token)
        if caller is None or caller.begins_at <= now < caller.expires_at:
            return caller
        if now >= caller.expires_at:
            del self.callers[USUAL + token]
            raise expired()
        return None

    def put(self, token: str, caller: Caller) -> Caller:
        """Stores a token's caller, and returns the caller."""
        if len(self.callers) >= MOST:
            self.callers.popitem(last=False)
        self.callers[USUAL + token] = caller
        return caller

    def clear(self) -> None:
        """Forgets all tokens, because the keys have changed."""
        self.callers.clear()
