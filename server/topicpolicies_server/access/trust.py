"""Whether a client certificate still leads to an authority that is trusted. TLS asks that once, when a connection is made.

A certificate leads to an authority if it is one of those that are trusted, or was signed by one of them, or by one that was shown beside it
and leads there. Whoever signs has to be an authority (basic constraints, key usage, path length) at this time.

What TLS has looked at when the connection was made is not asked again: the certificate's own time and purpose, and constraints of names.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa

_MOST_SIGNATURES = 64
"""That are verified for one certificate: what a peer shows beside it is his choice."""
_MOST_KNOWN = 1_024
"""Certificates of which the answer is remembered."""
_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
_UNREADABLE = (ValueError, TypeError, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, UnsupportedAlgorithm)


def certificates_of(pem: bytes) -> list[x509.Certificate]:
    """The certificates of a PEM file.

    Raises:
        ValueError: one of them can't be read.
    """
    found = []
    for number, block in enumerate(_blocks(pem), 1):
        if (read := _read(block)) is None:
            raise ValueError(f"its certificate number {number} can't be read")
        found.append(read)
    return found


def _blocks(pem: bytes) -> list[bytes]:
    return [_BEGIN + block.partition(_END)[0] + _END for block in pem.split(_BEGIN)[1:]]


def _read(block: bytes) -> x509.Certificate | None:
    try:
        found = x509.load_pem_x509_certificate(block)
        _ = found.extensions  # they are read when they are asked for
    except _UNREADABLE:
        return None
    return found


class Trust:
    """The authorities of clients. Answers are remembered for each certificate, as long as these are the authorities."""

    def __init__(self, authorities: Sequence[x509.Certificate]) -> None:
        """``authorities``: those that are trusted."""
        self._authorities = list(authorities)
        self._known: OrderedDict[bytes, bool] = OrderedDict()

    def holds(self, certificate: bytes, beside: bytes) -> bool:
        """Whether a certificate leads to one of them.

        Args:
            certificate: the client's, PEM.
            beside: what the client has shown beside it, PEM.
        """
        name = hashlib.sha256(certificate + b"\0" + beside).digest()
        known = self._known.get(name)
        if known is None:
            leaf, others = _read(certificate), map(_read, _blocks(beside))
            known = leaf is not None and _Search(self._authorities, [each for each in others if each is not None]).leads(leaf, 0)
            if len(self._known) >= _MOST_KNOWN:
                self._known.popitem(last=False)
            self._known[name] = known
        return known


class _Search:
    """For a way from one certificate to an authority."""

    def __init__(self, authorities: list[x509.Certificate], others: list[x509.Certificate]) -> None:
        self._authorities = authorities
        self._others = others
        self._left = _MOST_SIGNATURES
        self._now = datetime.now(UTC)
        self._seen: set[x509.Certificate] = set()

    def leads(self, certificate: x509.Certificate, below: int) -> bool:
        """``below``: how many authorities stand between it and the client's certificate, itself included."""
        if certificate in self._authorities:
            return True
        self._seen.add(certificate)
        if any(self._signs(each, certificate, below) for each in self._authorities):
            return True
        nexts = [each for each in self._others if each not in self._seen]
        return any(self._signs(each, certificate, below) and self.leads(each, below + 1) for each in nexts)

    def _signs(self, issuer: x509.Certificate, certificate: x509.Certificate, below: int) -> bool:
        if _name(issuer.subject) != _name(certificate.issuer) or not _may_sign(issuer, below):
            return False
        if not issuer.not_valid_before_utc <= self._now <= issuer.not_valid_after_utc or not self._left:
            return False
        self._left -= 1
        return _signed(certificate, issuer)


def _may_sign(issuer: x509.Certificate, below: int) -> bool:
    """Whether it is an authority, with as many others below it."""
    if issuer.version is x509.Version.v1:
        return issuer.subject == issuer.issuer  # it has no way to say it
    said = {type(each.value): each.value for each in issuer.extensions}
    constraints, usage = said.get(x509.BasicConstraints), said.get(x509.KeyUsage)
    if not isinstance(constraints, x509.BasicConstraints) or not constraints.ca:
        return False
    if isinstance(usage, x509.KeyUsage) and not usage.key_cert_sign:
        return False
    return constraints.path_length is None or below <= constraints.path_length


def _signed(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    signature, content = certificate.signature, certificate.tbs_certificate_bytes
    try:
        key, how, digest = issuer.public_key(), certificate.signature_algorithm_parameters, certificate.signature_hash_algorithm
        if isinstance(key, rsa.RSAPublicKey) and isinstance(how, padding.PKCS1v15 | padding.PSS) and digest is not None:
            key.verify(signature, content, how, digest)
        elif isinstance(key, ec.EllipticCurvePublicKey) and isinstance(how, ec.ECDSA):
            key.verify(signature, content, how)
        elif isinstance(key, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey) and how is None:
            key.verify(signature, content)
        else:
            return False
    except (InvalidSignature, *_UNREADABLE):
        return False
    return True


def _name(name: x509.Name) -> list[tuple[str, str]]:
    """A name for comparing, as TLS libraries do: the case of letters and the number of spaces do not count."""
    return [(each.oid.dotted_string, " ".join(str(each.value).casefold().split())) for each in name]
