"""Makes keys and tokens for tests, also tokens that libraries refuse to make."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Coroutine
from datetime import datetime, tzinfo
from functools import cache
from typing import Any, Self, TypeVar

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

_T = TypeVar("_T")
SECRET = b"0123456789abcdef0123456789abcdef"
NOW = int(time.time())
"""The time at which the tests began."""


def at_once(found: Coroutine[Any, Any, _T]) -> _T:
    """Returns the result of a coroutine that waits for nothing."""
    try:
        found.send(None)
    except StopIteration as ended:
        result: _T = ended.value
        return result
    found.close()
    raise AssertionError("it waits")


@cache
def rsa_key(name: str = "", bits: int = 2048) -> rsa.RSAPrivateKey:
    """Returns the RSA key of a name, the same one at each call."""
    del name
    return rsa.generate_private_key(public_exponent=65_537, key_size=bits)


@cache
def curve_key(name: str = "") -> ec.EllipticCurvePrivateKey:
    """Returns the key of a name for ES256, the same one at each call."""
    del name
    return ec.generate_private_key(ec.SECP256R1())


@cache
def edwards_key() -> ed25519.Ed25519PrivateKey:
    """Returns a key for EdDSA, the same one at each call."""
    return ed25519.Ed25519PrivateKey.generate()


def pem(key: Any) -> bytes:
    """Returns the public key as ``openssl`` writes it."""
    made: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return made


def der(key: Any) -> bytes:
    """Returns the public key as ``pulsar tokens create-key-pair`` writes it."""
    made: bytes = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return made


def token(key: Any = SECRET, algorithm: str = "HS256", headers: dict[str, Any] | None = None, **claims: Any) -> str:
    """Returns a token; its subject is alice unless ``sub`` is given."""
    return jwt.encode({"sub": "alice"} | claims, key, algorithm, headers)


def unsigned(header: object, claims: object, signature: bytes = b"") -> str:
    """Returns a token of any three parts."""
    return ".".join(part(each if isinstance(each, bytes) else json.dumps(each).encode()) for each in (header, claims, signature))


def signed(header: object, claims: object, secret: bytes = SECRET, digest: str = "sha256") -> str:
    """Returns a token of any header and claims, signed with an HMAC."""
    body = unsigned(header, claims).rpartition(".")[0]
    return f"{body}.{part(hmac.digest(secret, body.encode(), getattr(hashlib, digest)))}"


def part(content: bytes) -> str:
    """Encodes bytes as a part of a token."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def jwk(key: Any, key_id: str | None = None, **others: str) -> dict[str, Any]:
    """Returns the public key as issuers publish it."""
    kinds = {rsa.RSAPrivateKey: RSAAlgorithm, ec.EllipticCurvePrivateKey: ECAlgorithm, ed25519.Ed25519PrivateKey: OKPAlgorithm}
    kind: Any = next(made for private, made in kinds.items() if isinstance(key, private))
    written: dict[str, Any] = kind.to_jwk(key.public_key(), as_dict=True)
    return written | ({} if key_id is None else {"kid": key_id}) | others


def set_clock(patched: pytest.MonkeyPatch, moment: float) -> None:
    """Sets the time of everything that verifies tokens."""

    class Datetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(moment, tz)

    patched.setattr(time, "time", lambda: moment)
    patched.setattr("jwt.api_jwt.datetime", Datetime)
