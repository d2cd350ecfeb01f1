"""Which of an issuer's published keys are used to verify tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from topicpolicies_server.access.jwks import MOST_BYTES, MOST_KEYS, key_set
from topicpolicies_server.access.keys import KeyUnusable

from .signing import curve_key, edwards_key, jwk, part, rsa_key

SECRET_KEY = {"kty": "oct", "kid": "secret", "k": part(bytes(32)), "alg": "HS256"}


def written(*keys: Any) -> bytes:
    return json.dumps({"keys": keys}).encode()


def test_keys_of_every_kind_are_read_with_their_algorithms() -> None:
    keys = key_set(written(jwk(rsa_key(), "r"), jwk(curve_key(), "c"), jwk(edwards_key(), "e"), jwk(rsa_key(), "one", alg="PS256")))
    assert {name: key.algorithms for name, key in keys.named.items()} == {
        "r": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
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
        5,
        "key",
        None,
        {"kty": "RSA"},
        {"kty": "RSA", "n": "!", "e": []},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": ["RSA"]},
    ]
    assert set(key_set(written(jwk(curve_key(), "good"), *others, *broken)).named) == {"good"}
    with pytest.raises(KeyUnusable, match="no public key"):
        key_set(written(*others, *broken))


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b'{"keys": {}}', b'{"keys": []}', b"\xff", b"[" * 5000, b" " * (MOST_BYTES + 1)]
)
def test_a_file_that_is_not_a_key_set_is_refused(content: bytes) -> None:
    with pytest.raises(KeyUnusable):
        key_set(content)


def test_a_token_that_names_no_key_is_verified_only_if_the_set_has_one_key() -> None:
    one, two = key_set(written(jwk(rsa_key(), "a"))), key_set(written(jwk(rsa_key(), "a"), jwk(rsa_key("b"))))
    assert one.find("", "RS256") is one.named["a"] is one.find("a", "RS256")
    assert two.find("", "RS256") is None and two.find("a", "RS256") is two.named["a"]
    assert one.find("b", "RS256") is None and one.find("a", "ES256") is None and one.find("a", "HS256") is None


def test_a_bounded_number_of_keys_is_read() -> None:
    keys = key_set(written(*(jwk(curve_key(), str(number)) for number in range(MOST_KEYS + 5))))
    assert len(keys.named) == MOST_KEYS
