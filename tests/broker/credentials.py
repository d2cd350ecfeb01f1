"""Credentials for secured brokers, generated for each run: bearer tokens (HS256) and a certificate authority.

No credential is kept in the repository, and none is trusted outside of a test.
"""

import base64
import datetime as dt
import hashlib
import hmac
import ipaddress
import json
import secrets
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=1)


@dataclass(frozen=True)
class TokenKey:
    """A secret key with which a broker verifies tokens (``AuthenticationProviderToken``, ``tokenSecretKey``)."""

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    audience: str = ""
    """The claim ``aud`` of tokens; "": they have none."""

    def token(self, role: str) -> str:
        """Returns a JSON web token whose subject is the role; it does not expire."""
        claims = {"sub": role, "aud": self.audience} if self.audience else {"sub": role}
        body = ".".join(_base64(json.dumps(part, separators=(",", ":")).encode()) for part in ({"alg": "HS256"}, claims))
        return f"{body}.{_base64(hmac.digest(self.secret, body.encode(), hashlib.sha256))}"


@dataclass(frozen=True)
class Identity:
    """A certificate with its private key, as PEM files (the key in PKCS #8, which Java reads)."""

    certificate: Path
    key: Path


def trusting(authority: Path, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> ssl.SSLContext:
    """Returns a context that accepts certificates without key identifiers also since Python 3.13: those made here have none."""
    context = ssl.create_default_context(purpose, cafile=authority)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class Authority:
    """A certificate authority in a directory, with the certificate ``ca.pem`` that the other side has to trust."""

    def __init__(self, directory: Path, name: str = "test authority") -> None:
        """``name``: the authority's common name, by which TLS distinguishes authorities."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.trust = directory / "ca.pem"
        """The authority's own certificate."""
        self.trust.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, common_name: str) -> Identity:
        """Issues a certificate for a server on the loopback interface, or for a client, whose role is the common name."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        loopback = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
        certificate = (
            _builder(name, self._name, key.public_key())
            .add_extension(x509.SubjectAlternativeName(loopback), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        identity = Identity(self._directory / f"{common_name}.pem", self._directory / f"{common_name}.key.pem")
        identity.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        identity.key.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        identity.key.chmod(0o600)
        return identity


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + _LIFETIME)
    )


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
