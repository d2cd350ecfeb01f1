"""Pulsar's own tokens: signed with a key that the server has, and verified as brokers do (``AuthenticationProviderToken``).

While one key replaces another there are two, and tokens of either are valid.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..core.errors import PolicyError
from . import signed
from .caller import Caller, Way
from .caller_cache import MOST, CallerCache
from .keys import Key


class TokenRules(NamedTuple):
    """What is required of a token. The defaults are the brokers'."""

    role_claim: str = "sub"
    audience_claim: str = ""
    """The claim with the audience; "": the token needs no audience."""
    audience: str = ""
    leeway: float = 0.0
    """By how many seconds clocks may differ."""


class Tokens:
    """Verifies Pulsar's tokens."""

    def __init__(self, keys: tuple[Key, ...], rules: TokenRules) -> None:
        """``keys``: the keys in force until others are set (``take``); at least one."""
        self._keys = keys
        self._rules = rules
        self._cache = CallerCache()
        self.known: Callable[[str, float], Caller | None] = self._cache.get
        """Returns the caller of a token that was verified before with a key that is in force; None: ``caller`` has to verify it. The
        arguments are the token, and the time in seconds since 1970.

        Raises:
            PolicyError: CREDENTIALS_EXPIRED: the token has expired since.
        """

    @property
    def callers(self) -> Mapping[str, Caller]:
        """Callers whose tokens were verified with a key that is in force, by the metadata ``authorization``. Their times may be over."""
        return self._cache.callers

    def take(self, keys: tuple[Key, ...]) -> None:
        """Sets the keys in force: tokens that were signed with other keys are not valid any more."""
        self._keys = keys
        self._cache.clear()

    def kept(self) -> dict[str, tuple[int, int]]:
        """Returns how many tokens are remembered, and how many at most."""
        return {"tokens": (len(self._cache), MOST)}

    def caller(self, token: str, now: float) -> Caller:
        """Returns the caller that a token names.

        Raises:
            PolicyError: UNAUTHENTICATED: the token is not valid, or not any more.
        """
        rules = self._rules
        claims = self._verified(token)
        begins_at, expires_at = signed.times(claims, now, rules.leeway)
        if rules.audience_claim:
            signed.check_audience(claims, rules.audience_claim, frozenset({rules.audience}))
        return self._cache.put(token, Caller(signed.role(claims, rules.role_claim), Way.TOKEN, expires_at=expires_at, begins_at=begins_at))

    def _verified(self, token: str) -> dict[str, Any]:
        first, *others = self._keys
        try:
            return signed.verified(token, first)
        except PolicyError:
            for key in others:
                with contextlib.suppress(PolicyError):
                    return signed.verified(token, key)
            raise
