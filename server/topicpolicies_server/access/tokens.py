"""Pulsar's own tokens: signed with a key that the server has, as brokers verify them (``AuthenticationProviderToken``).

While one key takes the place of another there are two, and a token of either holds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..core.errors import PolicyError
from . import signed
from .caller import Caller, Way
from .keys import Key
from .remembered import MOST, Remembered


class TokenRules(NamedTuple):
    """What a token has to say. The defaults are the brokers'."""

    role_claim: str = "sub"
    audience_claim: str = ""
    """Where its audience stands; "": it needs none."""
    audience: str = ""
    leeway: float = 0.0
    """Seconds by which clocks may differ."""


class Tokens:
    """Verifies them."""

    def __init__(self, keys: tuple[Key, ...], rules: TokenRules) -> None:
        """``keys``: those that are in force, until others are (``take``); one at least."""
        self._keys = keys
        self._rules = rules
        self._remembered = Remembered()
        self.known: Callable[[str, float], Caller | None] = self._remembered.get
        """Whose token it is, if it was verified before, with a key that is in force: by the token, and the seconds since 1970.

        Raises:
            PolicyError: CREDENTIALS_EXPIRED, it has expired since.
        """

    @property
    def callers(self) -> Mapping[str, Caller]:
        """Whose tokens were verified with a key that is in force, by the metadata ``authorization``. Not all are in their time."""
        return self._remembered.callers

    def take(self, keys: tuple[Key, ...]) -> None:
        """Other keys are in force: what was signed with one that is not among them does not hold any more."""
        self._keys = keys
        self._remembered.clear()

    def kept(self) -> dict[str, tuple[int, int]]:
        """What is remembered, and how much at most."""
        return {"tokens": (len(self._remembered), MOST)}

    def caller(self, token: str, now: float) -> Caller:
        """Whose token it is.

        Raises:
            PolicyError: UNAUTHENTICATED, nobody's, or not any more.
        """
        rules = self._rules
        claims = self._verified(token)
        begins_at, expires_at = signed.times(claims, now, rules.leeway)
        if rules.audience_claim:
            signed.check_audience(claims, rules.audience_claim, frozenset({rules.audience}))
        return self._remembered.put(
            token, Caller(signed.role(claims, rules.role_claim), Way.TOKEN, expires_at=expires_at, begins_at=begins_at)
        )

    def _verified(self, token: str) -> dict[str, Any]:
        first, *others = self._keys
        try:
            return signed.verified(token, first)
        except PolicyError:
            for key in others:
                with contextlib.suppress(PolicyError):
                    return signed.verified(token, key)
            raise
