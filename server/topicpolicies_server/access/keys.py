"""Keys that verify the signatures of tokens, read from the forms in which brokers have them.

| the key | the form | the algorithms of its tokens |
|---|---|---|
| secret | the file's bytes, or ``data:;base64,...`` in it | HS256; HS384 and HS512 too if it is long enough for them |
| public, RSA | DER (X.509), PEM, or ``data:;base64,...`` with one of them | RS256 to RS512, PS256 to PS512 |
| public, elliptic curve | as RSA | the one of its curve: ES256, ES384, ES512 |
| public, Ed25519 | as RSA | EdDSA |

A file may have several keys, so that one can replace another without a moment in which tokens of either are refused: PEM blocks one behind
the other, or lines of ``data:;base64,...``. Brokers read one key.

The key decides which algorithms are accepted, never the token: whatever a token's header says, a public key is never the secret of an HMAC.

Source: ``AuthTokenUtils`` of Pulsar's brokers; RFC 7518 for the lengths of secrets.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key
from cryptography.x509 import load_der_x509_certificate

Public: TypeAlias = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey
LEAST_SECRET_BYTES = 32
"""The least length of a secret: as many bytes as HS256 makes (RFC 7518, 3.2)."""
LEAST_RSA_BITS = 2048
"""The least length of an RSA key (RFC 7518, 3.3)."""
MOST_KEYS = 4
"""How many keys a file has at most: a token whose signature does not match is tried with each."""
_SECRETS = {"HS256": 32, "HS384": 48, "HS512": 64}
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_DATA, _BASE64 = b"data:", b";base64"
_MARK = b"-----BEGIN "
_NEXT_DATA, _NEXT_MARK = re.compile(rb"\s+(?=data:)"), re.compile(rb"(?=-----BEGIN )")


class Key(NamedTuple):
    """A key that verifies signatures."""

    material: bytes | Public
    algorithms: tuple[str, ...]
    """The algorithms of the tokens that it verifies."""


class KeyUnusable(ValueError):
    """Raised for bytes that are no usable key; the text is a clause that says why."""


def several(content: bytes, read: Callable[[bytes], Key]) -> tuple[Key, ...]:
    """Reads all keys of a file's bytes; most files have one.

    Args:
        content: the bytes.
        read: reads one key.

    Raises:
        KeyUnusable: there are too many keys, or one can't be used.
    """
    if content.startswith(_DATA):
        parts = _NEXT_DATA.split(content)
    elif _MARK in content:
        parts = _NEXT_MARK.split(content)[1:]
    else:
        parts = [content]
    if len(parts) > MOST_KEYS:
        raise KeyUnusable(f"it has {len(parts)} keys, and at most {MOST_KEYS} are allowed")
    return tuple(map(read, parts))


def secret_key(content: bytes) -> Key:
    """Reads a secret key from a file's bytes; its holders can also sign tokens.

    Raises:
        KeyUnusable: the key is too short, or is not secret.
    """
    secret = _unwrapped(content)
    if _MARK in secret:
        raise KeyUnusable("it has a PEM key, which is not a secret key")
    if _is_public_der(secret):
        raise KeyUnusable("it has a public key or a certificate, which is not a secret key: everyone who has seen it could sign")
    if len(secret) < LEAST_SECRET_BYTES:
        raise KeyUnusable(f"it has {len(secret)} bytes, and a secret key needs at least {LEAST_SECRET_BYTES}")
    return Key(secret, tuple(name for name, least in _SECRETS.items() if len(secret) >= least))


def public_key(content: bytes, algorithm: str) -> Key:
    """Reads a public key from a file's bytes.

    Args:
        content: the bytes.
        algorithm: an algorithm that the key must be for.

    Raises:
        KeyUnusable: the bytes are no public key, or one that is too short, or for other algorithms.
    """
    encoded = _unwrapped(content)
    try:
        loaded = load_pem_public_key(encoded) if _MARK in encoded else load_der_public_key(encoded)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyUnusable("it has no public key, neither DER (X.509) nor PEM") from error
    key = of_public(loaded)
    if algorithm not in key.algorithms:
        raise KeyUnusable(f"its key is for {' or '.join(key.algorithms)}, not for {algorithm}")
    return key


def of_public(loaded: object) -> Key:
    """Returns a public key with its algorithms.

    Raises:
        KeyUnusable: the key is too short, or of a kind that signs no tokens.
    """
    if isinstance(loaded, RSAPublicKey):
        if loaded.key_size < LEAST_RSA_BITS:
            raise KeyUnusable(f"its RSA key has {loaded.key_size} bits, and at least {LEAST_RSA_BITS} are needed")
        return Key(loaded, _RSA)
    if isinstance(loaded, EllipticCurvePublicKey):
        algorithm = _CURVES.get(loaded.curve.name)
        if algorithm is None:
            raise KeyUnusable(f"tokens are not signed with keys of its curve {loaded.curve.name}")
        return Key(loaded, (algorithm,))
    if isinstance(loaded, Ed25519PublicKey):
        return Key(loaded, ("EdDSA",))
    raise KeyUnusable("tokens are not signed with keys of its kind")


def _is_public_der(content: bytes) -> bool:
    for load in (load_der_public_key, load_der_x509_certificate):
        try:
            load(content)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            continue
        return True
    return False


def _unwrapped(content: bytes) -> bytes:
    """Returns the bytes of a key, which may be written as a URL with its data (RFC 2397), as in ``broker.conf``."""
    if not content.startswith(_DATA):
        return content
    kind, comma, data = content.removeprefix(_DATA).partition(b",")
    if not comma or not kind.endswith(_BASE64):
        raise KeyUnusable("it begins with data: and is not data:;base64,...")
    try:
        return base64.b64decode(b"".join(data.split()), validate=True)
    except binascii.Error as error:
        raise KeyUnusable("the text after data:;base64, is not base64") from error
