"""Credentials for secured brokers, generated for each run: bearer tokens (HS256) and a certificate authority."""

import secrets
import ssl
from dataclasses import dataclass, field
from pathlib import Path

import jwt

from tests.client import certificates
from tests.client.certificates import Identity

__all__ = ["Authority", "Identity", "TokenKey", "trusting"]


@dataclass(frozen=True)
class TokenKey:
    """A secret key with which a broker verifies tokens (``AuthenticationProviderToken``, ``tokenSecretKey``)."""

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    audience: str = ""
    """The claim ``aud`` of tokens; "": they have none."""

    def token(self, role: str) -> str:
        """Returns a JSON web token whose subject is the role; it does not expire."""
        return jwt.encode({"sub": role, "aud": self.audience} if self.audience else {"sub": role}, self.secret, "HS256")


def trusting(authority: Path, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> ssl.SSLContext:
    """Returns a context that accepts certificates without key identifiers also since Python 3.13: those made here have none."""
    context = ssl.create_default_context(purpose, cafile=authority)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class Authority(certificates.Authority):
    """An authority in a directory of its own, whose certificates are for the loopback interface; a client's role is the common name."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory, "ca")
        self.trust = self.certificate

    def issue(self, common_name: str) -> Identity:
        """Issues a certificate for a server or a client."""
        return self.identity(common_name, "localhost", "127.0.0.1")
