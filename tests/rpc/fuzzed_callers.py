"""The credentials of fuzzed requests, made from a seed: mostly of a caller with permissions, otherwise of one without, or not valid."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any, TypeAlias

from tests.access.signing import SECRET, token
from topicpolicies_server.config import AuthenticationConfig, AuthorizationConfig, TokenConfig
from topicpolicies_server.core.reasons import Reason

from .mutations import NAMESPACES

Pair: TypeAlias = tuple[str, str | bytes]
KEY, ORIGINAL_KEY = "authorization", "topicpolicies-original-principal"
FUZZER, OTHER, GATEWAY, STRANGER = "fuzzer", "other", "gateway", "stranger"
_ROLES = f"""
[[grants]]
roles = ["{FUZZER}", "{GATEWAY}"]
namespaces = {NAMESPACES}
permissions = ["read", "watch", "change", "history"]

[[grants]]
roles = ["{OTHER}"]
namespaces = ["acme/undisturbed"]
permissions = ["change"]
"""
REFUSALS = {
    each.value
    for each in (
        Reason.CREDENTIALS_EXPIRED,
        Reason.CREDENTIALS_INVALID,
        Reason.CREDENTIALS_MISSING,
        Reason.PROXY_REFUSED,
        Reason.PROXY_REFUSED,
        Reason.PERMISSION_DENIED,
        Reason.LIMIT_REACHED,
    )
}
"""The reasons with which these callers are refused."""


def asking(directory: Path) -> tuple[AuthenticationConfig, AuthorizationConfig]:
    """Returns how a server authenticates and authorizes its callers."""
    key, roles = directory / "secret.key", directory / "roles.toml"
    key.write_bytes(SECRET)
    roles.write_text(_ROLES)
    verified = AuthenticationConfig(token=TokenConfig(secret_key_file=key), proxy_roles=(GATEWAY,))
    return verified, AuthorizationConfig(file=roles)


def bearer(role: str, **claims: Any) -> Pair:
    """Returns the metadata of a caller with a token."""
    return KEY, f"Bearer {token(sub=role, **claims)}"


class Callers:
    """Chooses the credentials of calls."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._known = {role: bearer(role) for role in (FUZZER, GATEWAY, STRANGER)}
        self._expired = bearer(FUZZER, exp=time.time() - 60)

    def metadata(self) -> list[Pair]:
        """Returns the credentials of one call."""
        chance = self._chance
        match chance.choices(range(6), (80, 8, 3, 3, 3, 3))[0]:
            case 0:
                return [self._known[FUZZER]]
            case 1:
                return [self._known[GATEWAY], *self._original()]
            case 2:
                return [self._known[STRANGER]]
            case 3:
                return [self._expired]
            case 4:
                return [self._torn(*self._known[FUZZER])]
            case _:
                return []

    def _original(self) -> list[Pair]:
        role = self._chance.choice((FUZZER, FUZZER, STRANGER, GATEWAY, "", "x" * 2_000, None))
        return [] if role is None else [(ORIGINAL_KEY, role)]

    def _torn(self, key: str, value: str | bytes) -> Pair:
        """Returns a token in which one character is replaced or removed."""
        assert isinstance(value, str), "the value is not a text"
        at = self._chance.randrange(len(value))
        return key, value[:at] + self._chance.choice("0aZ._-= ~") * self._chance.randint(0, 1) + value[at + 1 :]
