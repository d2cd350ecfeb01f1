"""Makes client certificates for tests, as bytes."""

from __future__ import annotations

import datetime as dt

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from .signing import NOW, curve_key


def certificate(*names: str, ends_at: float = NOW + 3600) -> bytes:
    """Returns a self-signed certificate with these common names, as PEM."""
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "acme"), *(x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names)]
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(curve_key().public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(dt.datetime.fromtimestamp(ends_at - 7200, dt.UTC))
        .not_valid_after(dt.datetime.fromtimestamp(ends_at, dt.UTC))
    )
    return builder.sign(curve_key(), hashes.SHA256()).public_bytes(Encoding.PEM)
