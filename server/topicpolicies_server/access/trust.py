"""Whether a client certificate still leads to a trusted authority. TLS checks this only once, when a connection is made.

A certificate leads to an authority if it is a trusted one, or was signed by a trusted one, or by one that the client presented with it and
that leads to an authority. A certificate that signs must be an authority's (basic constraints, key usage, path length) at this time.

What TLS has checked when the connection was made is not checked again: the certificate's own time and purpose, and name constraints.

TLS accepts names that the ``cryptography`` library can't read (a T61String with an umlaut). Such a name is compared by its bytes.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa

_MOST_SIGNATURES = 64
"""How many signatures are verified for one certificate at most: the client chooses what it presents with it."""
_MOST_KNOWN = 1_024
"""How many certificates' answers are remembered."""
_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
_UNREADABLE = (ValueError, TypeError, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, UnsupportedAlgorithm)


def certificates_of(pem: bytes) -> list[x509.Certificate]:
    """Reads the certificates of a PEM file.

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
        _ = found.extensions  # extensions are parsed on first access, which may raise
    except _UNREADABLE:
        return None
    return found


class _Known(NamedTuple):
    """A remembered answer, and the time for which it is valid: until the validity of a certificate that may sign begins or ends."""

    holds: bool
    since: float
    until: float


class Trust:
    """The trusted authorities of clients. Answers are remembered for each certificate."""

    def __init__(self, authorities: Sequence[x509.Certificate], wall: Callable[[], float] = time.time) -> None:
        """``authorities``: the trusted ones; ``wall``: returns the time, in seconds since 1970."""
        self._authorities = list(authorities)
        self._wall = wall
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    def holds(self, certificate: bytes, beside: bytes) -> bool:
        """Whether a certificate leads to a trusted authority.

        Args:
            certificate: the client's certificate, PEM.
            beside: the other certificates that the client presented, PEM.
        """
        name = hashlib.sha256(certificate + b"\0" + beside).digest()
        known, now = self._known.get(name), self._wall()
        if known is None or not known.since <= now < known.until:
            leaf, others = _read(certificate), map(_read, _blocks(beside))
            search = _Search(self._authorities, [each for each in others if each is not None], now)
            known = _Known(leaf is not None and search.leads(leaf, 0), search.since, search.until)
            if len(self._known) >= _MOST_KNOWN:
                self._known.popitem(last=False)
            self._known[name] = known
        return known.holds


class _Search:
    """The search for a path from one certificate to a trusted authority."""

    def __init__(self, authorities: list[x509.Certificate], others: list[x509.Certificate], now: float) -> None:
        self.since, self.until = -math.inf, math.inf
        """The time for which the result is valid, in seconds since 1970."""
        self._authorities = authorities
        self._others = others
        self._left = _MOST_SIGNATURES
        self._now = now
        self._seen: set[x509.Certificate] = set()

    def leads(self, certificate: x509.Certificate, below: int) -> bool:
        """Whether a certificate leads to a trusted authority.

        Args:
            certificate: the certificate.
            below: how many authorities there are from this certificate down to the client's, which does not count.
        """
        if certificate in self._authorities:
            return True
        self._seen.add(certificate)
        if any(self._signs(each, certificate, below) for each in self._authorities):
            return True
        nexts = [each for each in self._others if each not in self._seen]
        return any(self._signs(each, certificate, below) and self.leads(each, below + 1) for each in nexts)

    def _signs(self, issuer: x509.Certificate, certificate: x509.Certificate, below: int) -> bool:
        if _subject(issuer) != _issuer(certificate) or not _may_sign(issuer, below):
            return False
        if not self._is_in_its_time(issuer) or not self._left:
            return False
        self._left -= 1
        return _signed(certificate, issuer)

    def _is_in_its_time(self, issuer: x509.Certificate) -> bool:
        """Whether an issuer's certificate is valid now. Limits the time for which the result of the search is valid accordingly."""
        begins, ends = issuer.not_valid_before_utc.timestamp(), issuer.not_valid_after_utc.timestamp() + 1  # the last second is included
        for edge in (begins, ends):
            if edge <= self._now:
                self.since = max(self.since, edge)
            else:
                self.until = min(self.until, edge)
        return begins <= self._now < ends


def _may_sign(issuer: x509.Certificate, below: int) -> bool:
    """Whether a certificate is an authority's that allows ``below`` other authorities below it."""
    if issuer.version is x509.Version.v1:
        return _subject(issuer) == _issuer(issuer)  # version 1 has no extensions that could say so
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


_Name: TypeAlias = list[tuple[str, str]] | bytes


def _subject(certificate: x509.Certificate) -> _Name:
    try:
        return _name(certificate.subject)
    except ValueError:
        return _elements(certificate)[_SUBJECT]


def _issuer(certificate: x509.Certificate) -> _Name:
    try:
        return _name(certificate.issuer)
    except ValueError:
        return _elements(certificate)[_ISSUER]


def _name(name: x509.Name) -> _Name:
    """Returns a name in a form for comparing, as TLS libraries do: without regard to case and the number of spaces."""
    return [(each.oid.dotted_string, " ".join(str(each.value).casefold().split())) for each in name]


_ISSUER, _SUBJECT = 2, 4
"""The indexes of issuer and subject among a certificate's elements: after number and algorithm, and after validity (RFC 5280, 4.1)."""
_VERSION, _LONG = 0xA0, 0x80


def _elements(certificate: x509.Certificate) -> list[bytes]:
    """Returns the elements of a certificate (DER) that was read before, up to its subject; without the version, which some leave out."""
    content = certificate.tbs_certificate_bytes
    at, found = _content(content, 0)[0], list[bytes]()
    while len(found) <= _SUBJECT:
        _, end = _content(content, at)
        if content[at] != _VERSION:
            found.append(content[at:end])
        at = end
    return found


def _content(der: bytes, at: int) -> tuple[int, int]:
    """Returns where the content of an element begins, and where it ends."""
    length, begin = der[at + 1], at + 2
    if length >= _LONG:
        begin += length - _LONG
        length = int.from_bytes(der[at + 2 : begin])
    return begin, begin + length
