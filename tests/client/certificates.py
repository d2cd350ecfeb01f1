"""Certificates for tests, generated when they are needed: an authority, and identities that it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Identity(NamedTuple):
    """A certificate and its key, as PEM files (the key in PKCS #8, which Java reads)."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; its own is ``certificate``. No credential is kept in the repository, and none is trusted outside of a test."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        signed = self._builder(self._name, self._key).add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())
        self.certificate = directory / f"{name}.pem"
        self.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def identity(self, name: str, *hosts: str) -> Identity:
        """Returns a new certificate and key, for a server on these hosts (names or addresses), or for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        alternatives = x509.SubjectAlternativeName([_host(host) for host in hosts or (name,)])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = self._builder(subject, key).add_extension(alternatives, critical=False).add_extension(usage, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        identity = Identity(self._directory / f"{name}.pem", self._directory / f"{name}-key.pem")
        identity.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        identity.key.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
        identity.key.chmod(0o600)
        return identity

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
        )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
