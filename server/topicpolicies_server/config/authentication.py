"""How a server authenticates callers. Options are named as in the brokers' configuration, where they have an equivalent there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from .address import Address
from .files import unreadable
from .urls import meant_as_url, without_credentials

PROVIDERS = ("token", "oidc", "certificate")
"""The ways in which callers can be authenticated."""
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""The algorithms of tokens that are signed with a private key."""
CERTIFICATE_ROLES = ("cn", "dns", "uri", "email")
"""The parts of a client certificate that can have the role: the common name, or an alternative name of one kind."""
MOST_LEEWAY_SECONDS = 300.0
"""By how much the clocks of those who sign tokens may be allowed to differ from this machine's (``leeway_seconds``)."""
OIDC_REFRESH_SECONDS = 900.0
MOST_ISSUERS = 16
"""How many issuers are accepted at most; each may have its own request for keys under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenConfig:
    """Authentication by Pulsar's own tokens (JWT). Exactly one of the two keys is given."""

    secret_key_file: Path | None = None
    public_key_file: Path | None = None
    public_algorithm: str = "RS256"
    """The algorithm of the public key."""
    role_claim: str = "sub"
    audience_claim: str = ""
    audience: str = ""

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        found = []
        if (self.secret_key_file is None) is (self.public_key_file is None):
            found.append("Tokens are verified with one key: give either --token-secret-key FILE or --token-public-key FILE.")
        for what, path in (("token secret key", self.secret_key_file), ("token public key", self.public_key_file)):
            found += [] if path is None else unreadable(what, path)
        if bool(self.audience_claim) is not bool(self.audience):
            found.append("--token-audience-claim and --token-audience belong together.")
        if not self.role_claim:
            found.append("--token-auth-claim names the claim that has the role: it can't be empty.")
        if self.public_algorithm not in ALGORITHMS:
            found.append(f"Tokens are not signed with {self.public_algorithm}: --token-public-alg is {', '.join(ALGORITHMS)}.")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcConfig:
    """Authentication by tokens of OpenID Connect."""

    issuers: tuple[str, ...]
    """The URLs of the issuers, exactly as their tokens have them in ``iss``."""
    audiences: tuple[str, ...]
    role_claim: str = "sub"
    jwks_file: Path | None = None
    """The file of the only issuer's keys (JWKS); None: each issuer is asked for its keys."""
    jwks_url: str = ""
    """The URL of the only issuer's keys (JWKS); "": each issuer publishes it in ``.well-known/openid-configuration``."""
    trust_certs_file: Path | None = None
    refresh_seconds: float = OIDC_REFRESH_SECONDS

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        found = []
        if not self.issuers:
            found.append("Tokens of OpenID Connect need --oidc-issuers: the issuers to accept.")
        if not self.audiences:
            found.append("Tokens of OpenID Connect need --oidc-audiences: a token for another service must not be accepted here.")
        if len(self.issuers) > MOST_ISSUERS:
            found.append(f"{len(self.issuers)} issuers are too many: at most {MOST_ISSUERS} are allowed.")
        if self.jwks_file is not None and self.jwks_url:
            found.append("Give either --oidc-jwks-file or --oidc-jwks-url, not both: one place of the issuer's keys.")
        if (self.jwks_file is not None or self.jwks_url) and len(self.issuers) > 1:
            found.append(
                "--oidc-jwks-file and --oidc-jwks-url are for the keys of one issuer: without these options each issuer publishes its own."
            )
        if not self.role_claim:
            found.append("--oidc-role-claim names the claim that has the role: it can't be empty.")
        if self.jwks_file is None:
            wrong = [meant_as_url(each) for each in self.issuers if not is_private(each)]
            found += [f'The issuer "{each}" can\'t be used to request keys: {_WANTED}' for each in wrong]
            if self.jwks_url and not is_private(self.jwks_url):
                found.append(f'Keys can\'t be requested from "{meant_as_url(self.jwks_url)}" (--oidc-jwks-url): {_WANTED}')
        elif any(without_credentials(each) != each for each in self.issuers):
            found.append("The URL of an issuer (--oidc-issuers) must not have credentials: they would be shown.")
        for what, path in (("OpenID Connect keys", self.jwks_file), ("OpenID Connect trust certificate", self.trust_certs_file)):
            found += [] if path is None else unreadable(what, path)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationConfig:
    """How callers are authenticated: by tokens, OpenID Connect, client certificates, several of these, or not at all."""

    token: TokenConfig | None = None
    oidc: OidcConfig | None = None
    certificate: str = ""
    """The part of a client certificate that has the role, one of ``CERTIFICATE_ROLES``; "": certificates do not authenticate."""
    proxy_roles: tuple[str, ...] = ()
    """The principals that call on behalf of others."""
    leeway_seconds: float = 0.0

    @property
    def enabled(self) -> bool:
        """Whether callers are authenticated."""
        return self.token is not None or self.oidc is not None or bool(self.certificate)

    def problems(self, *, mutual: bool) -> list[str]:
        """Returns what is wrong, a sentence each.

        Args:
            mutual: whether TLS requests certificates of clients.
        """
        found = [] if self.token is None else self.token.problems()
        found += [] if self.oidc is None else self.oidc.problems()
        if self.certificate and self.certificate not in CERTIFICATE_ROLES:
            found.append(f"A certificate has no {self.certificate}: --certificate-role is {', '.join(CERTIFICATE_ROLES)}.")
        if self.certificate and not mutual:
            found.append(
                "Client certificates authenticate callers only if they are requested: give --tls-client-ca, the authority that signs them."
            )
        if self.proxy_roles and not self.enabled:
            found.append("--proxy-roles go with --authentication-providers: an unauthenticated caller can't be a proxy.")
        if not 0 <= self.leeway_seconds <= MOST_LEEWAY_SECONDS:
            found.append(f"Clocks may differ by {MOST_LEEWAY_SECONDS:g} s at most, not by {self.leeway_seconds:g} s.")
        return found


_WANTED = "write https://host, or http:// for one on this machine."


def is_private(url: str) -> bool:
    """Whether the answer of a URL can't be changed on its way: the URL is https, or its host is this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and Address(host, 0).loopback)
