"""Which certificates lead to a trusted authority now, independent of what TLS found when the connection was made."""

from __future__ import annotations

import datetime as dt
import itertools
import ssl
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from topicpolicies_server.access import trust
from topicpolicies_server.access.trust import Trust, certificates_of

NOW = dt.datetime.now(dt.UTC)
HOUR = dt.timedelta(hours=1)


class Made(NamedTuple):
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: Any

    @property
    def pem(self) -> bytes:
        """The certificate as it is written in files."""
        return self.certificate.public_bytes(Encoding.PEM)


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def make(
    name: str,
    issuer: Made | None = None,
    *,
    ca: bool = True,
    below: int | None = None,
    key: Any = None,
    ended: bool = False,
    by: str = "",
    usage: bool | None = None,
) -> Made:
    """Makes a certificate, self-signed if it has no issuer. ``by``: how it names its issuer; ``usage``: whether its key may sign others."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    signing = issuer.key if issuer is not None else key
    issued_by = named(by) if by else issuer.certificate.subject if issuer is not None else named(name)
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(issued_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 2 * HOUR)
        .not_valid_after(NOW + (-HOUR if ended else HOUR))
    )
    if ca:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=below), critical=True)
    if usage is not None:
        usages = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign", "encipher_only", "decipher_only"),
            False,
        )
        builder = builder.add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=usage, **usages), critical=True)
    digest = None if isinstance(signing, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return Made(builder.sign(signing, digest), key)


WELL, UMLAUT = b"\x0c\x07Bxhxrde", b"\x14\x07B\xfch\xf6rde"
"""A name as the library writes it (UTF8String), and one that TLS accepts and the library can't read (T61String)."""


def with_umlauts(made: Made, issuer: Made) -> Made:
    """Returns the certificate with the unreadable name in place of "Bxhxrde", signed again; the issuer's key must be Ed25519."""
    content = made.certificate.tbs_certificate_bytes
    changed = content.replace(WELL, UMLAUT)
    assert changed != content
    whole = made.certificate.public_bytes(Encoding.DER).replace(content, changed)[:-64] + issuer.key.sign(changed)
    return Made(x509.load_pem_x509_certificate(ssl.DER_cert_to_PEM_cert(whole).encode()), made.key)


def holds(leaf: Made, *authorities: Made, beside: tuple[Made, ...] = ()) -> bool:
    """Returns whether a certificate leads to one of the authorities. ``beside``: certificates that the client presents with it."""
    found = Trust(certificates_of(b"".join(each.pem for each in authorities)))
    answers = {found.holds(leaf.pem, b"".join(each.pem for each in beside)) for _ in range(2)}
    assert len(answers) == 1, "the remembered answer is the one that was found"
    return answers.pop()


@pytest.mark.parametrize(
    "key", [ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65_537, 2_048), ed25519.Ed25519PrivateKey.generate()]
)
def test_a_certificate_leads_to_the_authority_that_signed_it_and_to_no_other(key: Any) -> None:
    root, other = make("root", key=key), make("other")
    leaf = make("leaf", root, ca=False)
    assert holds(leaf, root) and holds(leaf, other, root)
    assert not holds(leaf, other) and not holds(leaf)
    assert not holds(leaf, make("root")), "an authority of the same name has another key"


def test_a_certificate_that_is_in_the_trusted_file_itself_is_trusted() -> None:
    root = make("root")
    leaf, alone = make("leaf", root, ca=False), make("alone", ca=False)
    assert holds(leaf, leaf) and holds(alone, alone)
    assert not holds(make("leaf of a leaf", leaf, ca=False), leaf), "the trusted certificate is not an authority"


def test_intermediate_certificates_that_a_client_presents_can_lead_to_an_authority() -> None:
    root, other = make("root"), make("other")
    upper = make("upper", root)
    lower = make("lower", upper)
    leaf = make("leaf", lower, ca=False)
    for beside in itertools.permutations((upper, lower, other, make("lower", other))):
        assert holds(leaf, root, beside=beside) and not holds(leaf, make("third"), beside=beside)
    assert not holds(leaf, root, beside=(upper,)) and not holds(leaf, root)
    assert holds(leaf, lower), "an intermediate certificate may be the trusted one"
    assert holds(leaf, upper, beside=(lower,)) and holds(leaf, root, upper, lower)


def test_issuer_names_are_compared_without_case_and_repeated_blanks() -> None:
    root = make("Root  Authority")
    assert holds(make("leaf", root, ca=False, by="root authority"), root)
    assert not holds(make("leaf", root, ca=False, by="another"), root)


@pytest.mark.parametrize("how", [{"ca": False}, {"usage": False}, {"ended": True}])
def test_a_certificate_that_is_not_an_authority_now_can_not_sign_others(how: dict[str, Any]) -> None:
    root = make("root")
    middle = make("middle", root, **how)
    leaf = make("leaf", middle, ca=False)
    assert not holds(leaf, root, beside=(middle,)) and not holds(leaf, middle)
    assert holds(
        make("leaf", make("middle", root, usage=True, key=middle.key), ca=False), root, beside=(make("middle", root, key=middle.key),)
    )


def test_the_path_length_of_an_authority_bounds_the_authorities_below_it() -> None:
    for below, may in ((0, False), (1, True), (None, True)):
        root = make("root", below=below)
        middle = make("middle", root)
        assert holds(make("leaf", middle, ca=False), root, beside=(middle,)) is may
        assert holds(make("leaf", root, ca=False), root)


def test_the_number_of_signatures_verified_for_one_certificate_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    verified, signed = [], trust._signed

    def counted(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
        verified.append(issuer)
        return signed(certificate, issuer)

    monkeypatch.setattr(trust, "_signed", counted)
    key, root = ec.generate_private_key(ec.SECP256R1()), make("root")
    many = tuple(make("same", make("same", key=key), key=key) for _ in range(100))  # each has signed each
    assert not holds(make("leaf", many[0], ca=False), root, beside=many)
    assert len(verified) == 64


def test_an_unreadable_certificate_leads_nowhere_and_is_an_error_in_a_file() -> None:
    root = make("root")
    leaf = make("leaf", root, ca=False)
    found = Trust([root.certificate])
    broken = root.pem.replace(b"M", b"N", 1)
    assert not found.holds(b"", b"") and not found.holds(broken, b"") and not found.holds(b"-----BEGIN CERTIFICATE-----", b"")
    assert found.holds(leaf.pem, broken + b"junk"), "the unreadable other certificate is not needed"
    with pytest.raises(ValueError, match="its certificate number 2 can't be read"):
        certificates_of(root.pem + broken)
    assert certificates_of(b"some words\n" + root.pem + leaf.pem) == [root.certificate, leaf.certificate]


def test_unreadable_names_are_compared_by_their_bytes_and_do_not_affect_other_certificates() -> None:
    plain = make("Bxhxrde", key=ed25519.Ed25519PrivateKey.generate())
    root = with_umlauts(plain, plain)
    with pytest.raises(ValueError, match="asn1"):
        _ = root.certificate.subject
    leaf = with_umlauts(make("leaf", plain, ca=False), plain)
    assert holds(leaf, root) and holds(leaf, make("other"), root) and not holds(leaf, plain) and not holds(leaf, make("other"))
    assert not holds(make("leaf", plain, ca=False), root)
    other = make("other")
    assert holds(make("leaf", other, ca=False), other, beside=(root,)) and not holds(
        make("leaf", make("third"), ca=False), other, beside=(root,)
    )
    assert certificates_of(root.pem) == [root.certificate]


def test_a_remembered_answer_is_used_only_while_the_validity_of_authorities_is_the_same() -> None:
    root = make("root")  # valid from two hours ago until in an hour
    leaf = make("leaf", root, ca=False)
    now = NOW.timestamp()
    found = Trust([root.certificate], lambda: now)
    for hours, held in ((0, True), (2, False), (0.5, True), (-3, False), (-1.5, True)):
        now = NOW.timestamp() + hours * 3_600
        assert [found.holds(leaf.pem, b"") for _ in range(2)] == [held] * 2, hours
