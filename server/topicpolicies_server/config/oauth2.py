"""How tokens for Pulsar are requested from an issuer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from .files import unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth2Config:
    """OAuth 2.0 with client credentials, as in ``AuthenticationOauth2`` of Pulsar's clients."""

    issuer: str
    """The issuer's URL, ``https://host``; its metadata is requested below it, at ``/.well-known/openid-configuration``."""
    credentials_file: Path | None
    """The JSON file with ``client_id`` and ``client_secret``; it is read again for each token."""
    audience: str = ""
    scope: str = ""

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        found = []
        if self.credentials_file is None:
            found.append("Tokens for Pulsar are requested with credentials: give --pulsar-oauth2-credentials FILE.json.")
        else:
            found += unreadable("OAuth 2.0 credentials", self.credentials_file)
        try:
            parts = urlsplit(self.issuer)
            valid = parts.scheme in ("https", "http") and bool(parts.hostname) and parts.username is None and not parts.query
        except ValueError:
            valid = False
        if not valid:
            found.append("The issuer of tokens for Pulsar (--pulsar-oauth2-issuer) is not valid: write https://host.")
        return found
