"""Which contents of files are keys, and which algorithms each key verifies."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import load_pem_x509_certificate

from topicpolicies_server.access.keys import Key, KeyUnusable, public_key, public_keys, secret_key, secret_keys

from .certificates import certificate
from .signing import SECRET, curve_key, der, edwards_key, pem, rsa_key

RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


def in_url(content: bytes) -> bytes:
    return b"data:;base64," + base64.b64encode(content)


def test_a_secret_is_all_bytes_of_its_file_as_for_brokers() -> None:
    assert secret_key(SECRET) == Key(SECRET, ("HS256",))
    assert secret_key(SECRET + b"\n").material == SECRET + b"\n"
    assert secret_key(bytes(48)).algorithms == ("HS256", "HS384")
    assert secret_key(bytes(64)).algorithms == ("HS256", "HS384", "HS512")


def test_a_secret_may_be_written_as_in_broker_conf() -> None:
    assert [each.material for each in secret_keys(in_url(SECRET) + b"\n")] == [SECRET]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it has 0 bytes"),
        (bytes(31), "it has 31 bytes"),
        (in_url(bytes(31)), "it has 31 bytes"),
        (in_url(SECRET) + b"\n" + SECRET, "does not begin with data:;base64,"),
        (b"data:;base64,AA=A", "is not base64"),
        (in_url(b"") + b"!" + base64.b64encode(SECRET), "is not base64"),
    ],
)
def test_contents_that_are_not_a_secret_are_refused(content: bytes, why: str) -> None:
    with pytest.raises(KeyUnusable, match=why) as caught:
        secret_keys(content)
    assert SECRET.decode() not in str(caught.value)


_FORMS = pytest.mark.parametrize("form", [der, pem])


@_FORMS
@pytest.mark.parametrize("key", [rsa_key(), curve_key(), edwards_key()], ids=["rsa", "curve", "edwards"])
def test_a_public_key_as_der_or_pem_is_refused_as_a_secret(form: Callable[[object], bytes], key: object) -> None:
    with pytest.raises(KeyUnusable, match="not a secret key"):
        secret_key(form(key))


def test_a_certificate_is_refused_as_a_secret() -> None:
    for made in (certificate("server"), load_pem_x509_certificate(certificate("server")).public_bytes(Encoding.DER)):
        with pytest.raises(KeyUnusable, match="not a secret key"):
            secret_key(made)


@_FORMS
@pytest.mark.parametrize(
    ("key", "algorithms"), [(rsa_key(), RSA), (curve_key(), ("ES256",)), (edwards_key(), ("EdDSA",))], ids=["rsa", "curve", "edwards"]
)
def test_a_public_key_of_any_form_is_only_for_its_own_algorithms(
    form: Callable[[object], bytes], key: object, algorithms: tuple[str, ...]
) -> None:
    assert public_key(form(key)).algorithms == algorithms


@pytest.mark.parametrize(("curve", "algorithm"), [(ec.SECP384R1(), "ES384"), (ec.SECP521R1(), "ES512")])
def test_each_curve_has_its_algorithm(curve: ec.EllipticCurve, algorithm: str) -> None:
    assert public_key(der(ec.generate_private_key(curve))).algorithms == (algorithm,)


def test_weak_keys_and_keys_of_other_kinds_are_refused() -> None:
    for key, why in [
        (rsa.generate_private_key(public_exponent=65_537, key_size=1024), "1024 bits"),  # noqa: S505 (refused)
        (ec.generate_private_key(ec.SECP256K1()), "secp256k1"),
        (dsa.generate_private_key(2048), "of its kind"),
        (x25519.X25519PrivateKey.generate(), "of its kind"),
    ]:
        with pytest.raises(KeyUnusable, match=why):
            public_key(der(key))


def test_private_keys_and_garbage_are_refused_as_public_keys() -> None:
    private = rsa_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for content in (private, b"", b"-----BEGIN PUBLIC KEY-----", SECRET, b"\xff" * 300, der(rsa_key())[:-1]):
        with pytest.raises(KeyUnusable, match="no public key"):
            public_key(content)


def test_a_file_may_have_several_keys() -> None:
    secrets = [bytes([number]) * 32 for number in range(3)]
    for between in (b"\n", b"\r\n", b" "):
        assert [each.material for each in secret_keys(between.join(map(in_url, secrets)) + b"\n")] == secrets
    public = [rsa_key(name) for name in ("", "other")]
    for content in (b"".join(map(pem, public)), b"# ours\n" + b"\n".join(map(pem, public))):
        assert [each.material for each in public_keys(content)] == [key.public_key() for key in public]


def test_a_file_with_one_key_is_read_as_a_single_key() -> None:
    for content in (SECRET, SECRET + b"\n", b"a secret with data: in it, and blanks "):
        assert secret_keys(content) == (secret_key(content),)
    for content in (pem(rsa_key()), der(rsa_key())):
        assert len(public_keys(content)) == 1


@pytest.mark.parametrize(
    "content",
    [
        in_url(SECRET) + b"\n" + in_url(b"short"),
        in_url(SECRET) + b"\n" + in_url(SECRET)[:-5],
        pem(rsa_key()) + SECRET,
    ],
    ids=["one too short", "one cut off", "a secret behind a public key"],
)
def test_a_file_of_several_keys_is_refused_if_one_of_them_is_unusable(content: bytes) -> None:
    with pytest.raises(KeyUnusable):
        secret_keys(content)
