"""Keys that verify the signatures of tokens, read from the forms in which brokers have them.

| the key | the file has | the algorithms of its tokens |
|---|---|---|
| secret | the secret's bytes, or lines of ``data:;base64,...``, a secret each | HS256; HS384 and HS512 too if it is long enough for them |
| public, RSA | DER (X.509), or PEM, a block for each key | RS256 to RS512, PS256 to PS512 |
| public, elliptic curve | as RSA | the one of its curve: ES256, ES384, ES512 |
| public, Ed25519 | as RSA | EdDSA |

With several keys one can replace another without a moment in which tokens of either are refused. Brokers read one key.

The key decides which algorithms are accepted, never the token: whatever a token's header says, a public key is never the secret of an HMAC.

Source: ``AuthTokenUtils`` of Pulsar's brokers; RFC 7518 for the lengths of secrets.
"""

from __future__ import annotations

import base64
import binascii
import re
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
_SECRETS = {"HS256": 32, "HS384": 48, "HS512": 64}
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_DATA = b"data:;base64,"
_MARK = b"-----BEGIN "
_NEXT_MARK = re.compile(rb"(?=-----BEGIN )")


class Key(NamedTuple):
    """A key that verifies signatures."""

    material: bytes | Public
    algorithms: tuple[str, ...]
    """The algorithms of the tokens that it verifies."""


class KeyUnusable(ValueError):
    """Raised for bytes that are no usable key; the text is a clause that says why."""


def secret_keys(content: bytes) -> tuple[Key, ...]:
    """Reads the secret keys in a file's bytes; their holders can also sign tokens.

    Raises:
        KeyUnusable: a key can't be used.
    """
    if not content.startswith(_DATA):
        return (secret_key(content),)
    return tuple(secret_key(_decoded(line)) for line in content.split())


def public_keys(content: bytes) -> tuple[Key, ...]:
    """Reads the public keys in a file's bytes.

    Raises:
        KeyUnusable: a key can't be used.
    """
    blocks = _NEXT_MARK.split(content)[1:] if _MARK in content else [content]
    return tuple(public_key(block) for block in blocks)


def secret_key(secret: bytes) -> Key:
    """Returns a secret key.

    Raises:
        KeyUnusable: the key is too short, or is not secret.
    """
    if _MARK in secret:
        raise KeyUnusable("it has a PEM key, which is not a secret key")
    if _is_public_der(secret):
        raise KeyUnusable("it has a public key or a certificate, which is not a secret key: everyone who has seen it could sign")
    if len(secret) < LEAST_SECRET_BYTES:
        raise KeyUnusable(f"it has {len(secret)} bytes, and a secret key needs at least {LEAST_SECRET_BYTES}")
    return Key(secret, tuple(name for name, least in _SECRETS.items() if len(secret) >= least))


def public_key(encoded: bytes) -> Key:
    """Returns a public key from its DER or PEM.

    Raises:
        KeyUnusable: the bytes are no public key, or one that is too short, or signs no tokens.
    """
    try:
        loaded = load_pem_public_key(encoded) if _MARK in encoded else load_der_public_key(encoded)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyUnusable("it has no public key, neither DER (X.509) nor PEM") from error
    return of_public(loaded)


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


def _decoded(line: bytes) -> bytes:
    if not line.startswith(_DATA):
        raise KeyUnusable("one of its lines does not begin with data:;base64,")
    try:
        return base64.b64decode(line.removeprefix(_DATA), validate=True)
    except binascii.Error as error:
        raise KeyUnusable("the text after data:;base64, is not base64") from error
