"""Which of an issuer's published keys are used to verify tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from topicpolicies_server.access.issuers import key_set
from topicpolicies_server.access.keys import KeyUnusable

from .signing import curve_key, edwards_key, jwk, part, rsa_key

SECRET_KEY = {"kty": "oct", "kid": "secret", "k": part(bytes(32)), "alg": "HS256"}


def written(*keys: Any) -> bytes:
    return json.dumps({"keys": keys}).encode()


def test_keys_of_every_kind_are_read_with_their_algorithms() -> None:
    keys = key_set(written(jwk(rsa_key(), "r"), jwk(curve_key(), "c"), jwk(edwards_key(), "e"), jwk(rsa_key(), "one", alg="PS256")))
    assert {name: key.algorithms for name, key in keys} == {
        "r": ("RS256",),
        "c": ("ES256",),
        "e": ("EdDSA",),
        "one": ("PS256",),
    }


def test_secrets_private_keys_and_keys_that_can_not_sign_are_left_out() -> None:
    private = [
        json.loads(RSAAlgorithm.to_jwk(rsa_key())),
        json.loads(ECAlgorithm.to_jwk(curve_key())),
        json.loads(OKPAlgorithm.to_jwk(edwards_key())),
    ]
    others = [
        SECRET_KEY,
        *private,
        jwk(rsa_key(), use="enc"),
        jwk(rsa_key(), alg="HS256"),
        jwk(rsa_key(), alg="RSA-OAEP"),
        jwk(rsa_key(bits=1024)),
    ]
    broken = [
        {},
        {"kty": "RSA"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "unknown"},
    ]
    assert [name for name, _ in key_set(written(jwk(curve_key(), "good"), *others, *broken))] == ["good"]
    with pytest.raises(KeyUnusable, match=r"no public key|no set of keys"):
        key_set(written(*others, *broken))


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b'{"keys": {}}', b'{"keys": []}', b"\xff", b"[" * 5000])
def test_a_file_that_is_not_a_key_set_is_refused(content: bytes) -> None:
    with pytest.raises(KeyUnusable):
        key_set(content)
