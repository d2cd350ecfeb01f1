"""Pulsar's own tokens: signed with a key that the server has, as brokers verify them (``AuthenticationProviderToken``)."""

from __future__ import annotations

from typing import NamedTuple

from . import signed
from .caller import Caller, Way
from .keys import Key
from .remembered import Remembered


class TokenRules(NamedTuple):
    """What a token has to say. The defaults are the brokers'."""

    role_claim: str = "sub"
    audience_claim: str = ""
    """Where its audience stands; "": it needs none."""
    audience: str = ""
    leeway: float = 0.0
    """Seconds by which clocks may differ."""


class Tokens:
    """Verifies them with one key."""

    def __init__(self, key: Key, rules: TokenRules) -> None:
        """``key``: the one that is in force, until another is (``take``)."""
        self._key = key
        self._rules = rules
        self._remembered = Remembered()

    def take(self, key: Key) -> None:
        """Another key is in force: what was signed with the one before does not hold any more."""
        self._key = key
        self._remembered.clear()

    def known(self, token: str, now: float) -> Caller | None:
        """Whose token it is, if it was verified before, with the key that is in force.

        Args:
            token: the token.
            now: the time, in seconds since 1970.

        Raises:
            PolicyError: CREDENTIALS_EXPIRED, it has expired since.
        """
        return self._remembered.get(token, now)

    def caller(self, token: str, now: float) -> Caller:
        """Whose token it is.

        Raises:
            PolicyError: UNAUTHENTICATED, nobody's, or not any more.
        """
        rules = self._rules
        claims = signed.verified(token, self._key)
        expires_at = signed.expiry(claims, now, rules.leeway)
        if rules.audience_claim:
            signed.check_audience(claims, rules.audience_claim, frozenset({rules.audience}))
        return self._remembered.put(token, Caller(signed.role(claims, rules.role_claim), Way.TOKEN, expires_at=expires_at))
