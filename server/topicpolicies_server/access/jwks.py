"""The keys of an issuer, as it publishes them (JWKS, RFC 7517). Keys that sign no tokens, and secret keys, are left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import jwt
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from .keys import Key, KeyUnusable, of_public

MOST_BYTES = 256 * 1024
"""The largest size of a set of keys."""
MOST_KEYS = 64
"""How many keys of a set are read at most."""
_KINDS: Mapping[str, Any] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
"""The classes that read keys, by ``kty``; that of secrets (``oct``) is left out."""


class KeySet(NamedTuple):
    """The keys of an issuer."""

    named: Mapping[str, Key]
    """The keys that have an id, by id."""
    unnamed: tuple[Key, ...]
    """The keys that have no id."""

    def find(self, key_id: str, algorithm: str) -> Key | None:
        """Returns the key of a token; None: there is none. A token that names no key can only be verified if there is exactly one."""
        if key_id:
            found = self.named.get(key_id)
        else:
            only = (*self.named.values(), *self.unnamed)
            found = only[0] if len(only) == 1 else None
        return found if found is not None and algorithm in found.algorithms else None


def key_set(content: bytes) -> KeySet:
    """Reads the keys in the bytes of a JWKS.

    Raises:
        KeyUnusable: the bytes are no JWKS, or no key in it verifies tokens.
    """
    if len(content) > MOST_BYTES:
        raise KeyUnusable(f"it has more than {MOST_BYTES:,} bytes")
    try:
        written = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise KeyUnusable("it is not JSON") from error
    listed = written.get("keys") if isinstance(written, dict) else None
    if not isinstance(listed, list):
        raise KeyUnusable("it has no list of keys")
    named: dict[str, Key] = {}
    unnamed = []
    for each in listed[:MOST_KEYS]:
        if isinstance(each, dict) and (key := _key(each)) is not None:
            if isinstance(key_id := each.get("kid"), str) and key_id:
                named.setdefault(key_id, key)
            else:
                unnamed.append(key)
    if not named and not unnamed:
        raise KeyUnusable("it has no public key for signatures of tokens")
    return KeySet(named, tuple(unnamed))


def _key(written: Mapping[str, Any]) -> Key | None:
    """Reads one key; None: it is not one that tokens are verified with."""
    kind = _KINDS.get(str(written.get("kty")))
    if kind is None or written.get("use", "sig") != "sig":
        return None
    try:
        key = of_public(kind.from_jwk(dict(written)))  # raises for a private key
    except (jwt.PyJWTError, KeyUnusable, ValueError, TypeError, LookupError, ArithmeticError):
        return None
    algorithm = written.get("alg")
    if algorithm is None:
        return key
    return Key(key.material, (algorithm,)) if algorithm in key.algorithms else None
