"""How a server authenticates callers, and who decides what they may do.

Options are named as in the brokers' configuration, where they have an equivalent there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .address import is_private
from .logs import LogConfig, PulsarLogConfig
from .option import option, url_of

PROVIDERS = ("token", "oidc", "certificate")
"""The ways in which callers can be authenticated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenConfig:
    """Authentication by Pulsar's own tokens (JWT). Exactly one of the two keys is given."""

    secret_key_file: Path | None = option(None, name="token_secret_key", example='"/run/secrets/secret.key"', secret=True)
    """Pulsar's tokenSecretKey: a file of the secret's bytes, or of lines of data:;base64,... It is read again when it changes."""
    public_key_file: Path | None = option(None, name="token_public_key", example='"/etc/pulsar/public.key"')
    """Pulsar's tokenPublicKey: a file of the key, DER or PEM. It is read again when it changes."""
    role_claim: str = option("sub", name="token_auth_claim", metavar="CLAIM")
    """The claim of Pulsar's tokens that has the role."""
    audience_claim: str = option("", name="token_audience_claim", example='"aud"', metavar="CLAIM")
    """The claim of Pulsar's tokens that has the audience; goes with ``token_audience``."""
    audience: str = option("", name="token_audience", example='"pulsar"', metavar="AUDIENCE")
    """The audience that Pulsar's tokens must be for."""

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        found = []
        if (self.secret_key_file is None) is (self.public_key_file is None):
            found.append("Tokens are verified with one key: give either --token-secret-key FILE or --token-public-key FILE.")
        if bool(self.audience_claim) is not bool(self.audience):
            found.append("--token-audience-claim and --token-audience belong together.")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcConfig:
    """Authentication by tokens of OpenID Connect."""

    issuers: tuple[str, ...] = option(name="oidc_issuers", example='["https://login.example.com/"]', **url_of("https", "http"))
    """The issuers whose tokens are accepted: URLs, as their tokens have them in iss."""
    audiences: tuple[str, ...] = option(name="oidc_audiences", example='["topicpolicies"]', metavar="AUDIENCE")
    """The accepted audiences: a token must name one of them in aud."""
    role_claim: str = option("sub", name="oidc_role_claim", metavar="CLAIM")
    """The claim of the issuers' tokens that has the role."""
    jwks_file: Path | None = option(None, name="oidc_jwks_file", default_text="keys are requested from each issuer", example='"keys.json"')
    """A file with the keys of the only issuer (JWKS). It is read again when it changes."""
    trust_certs_file: Path | None = option(None, name="oidc_trust_certs", default_text="those of the system", example='"ca.pem"')
    """The authorities of the issuers' certificates, PEM."""

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        found = []
        if self.jwks_file is not None and len(self.issuers) > 1:
            found.append("--oidc-jwks-file has the keys of one issuer: without it each issuer publishes its own.")
        if self.jwks_file is None and not all(map(is_private, self.issuers)):
            found.append("The keys of an issuer (--oidc-issuers) are requested by https, or by http from this machine: write https://host.")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationConfig:
    """How callers are authenticated: by tokens, OpenID Connect, client certificates, several of these, or not at all."""

    token: TokenConfig | None = None
    oidc: OidcConfig | None = None
    certificate: bool = False
    """Whether client certificates authenticate callers."""
    leeway_seconds: float = option(0.0, name="token_allowed_clock_skew_seconds", least=0, most=300, metavar="SECONDS")
    """By how much the clock of a token's signer, of Pulsar's tokens or of others, may differ from this machine's."""
    proxy_roles: tuple[str, ...] = option((), example='["gateway"]', metavar="ROLE")
    """Principals that call on behalf of others, whom they name."""

    @property
    def enabled(self) -> bool:
        """Whether callers are authenticated."""
        return self.token is not None or self.oidc is not None or self.certificate

    def problems(self, *, mutual: bool) -> list[str]:
        """Returns what is wrong, a sentence each. ``mutual``: whether TLS requests certificates of clients."""
        found = [] if self.token is None else self.token.problems()
        found += [] if self.oidc is None else self.oidc.problems()
        if self.certificate and not mutual:
            found.append(
                "Client certificates authenticate callers only if they are requested: give --tls-client-ca, the authority that signs them."
            )
        if self.proxy_roles and not self.enabled:
            found.append("--proxy-roles go with --authentication-providers: an unauthenticated caller can't be a proxy.")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationConfig:
    """Who decides what callers may do in a namespace."""

    file: Path | None = option(None, name="authorization", example='"roles.toml"')
    """A file (TOML) of roles and their permissions. It is read again when it changes."""
    brokers: bool = option(False, name="authorization_by_brokers")
    """Let Pulsar's brokers decide, by their superusers and the admin roles of their tenants."""
    superuser_roles: tuple[str, ...] = option((), example='["admin"]', metavar="ROLE,...")
    """Roles that may do everything, in addition to the brokers' superusers."""
    cache_seconds: float = option(30.0, name="authorization_cache_seconds", least=1, most=3_600, metavar="SECONDS")
    """How long a broker's answer about a role is used. An answer in use is requested again before that."""
    allow_authenticated: bool = option(False)
    """Let every authenticated caller do everything."""

    @property
    def enabled(self) -> bool:
        """Whether there is authorization: by a file, or by brokers."""
        return self.file is not None or self.brokers

    def problems(self, log: LogConfig, *, authenticated: bool, show_secrets: bool) -> list[str]:
        """Returns what is wrong, a sentence each."""
        problems = []
        if self.file is not None and self.brokers:
            problems.append(
                "Give either --authorization FILE or --authorization-by-brokers, not both: one of them decides what callers may do."
            )
        if self.brokers and not isinstance(log, PulsarLogConfig):
            problems.append("--authorization-by-brokers goes with --pulsar; with the embedded log give --authorization FILE.")
        if not self.brokers and self.superuser_roles:
            problems.append("--superuser-roles go with --authorization-by-brokers; a file names its own roles.")
        if self.enabled and self.allow_authenticated:
            problems.append("--allow-authenticated lets every authenticated caller do everything: remove it, or the authorization.")
        if self.enabled and show_secrets:
            problems.append(
                "--show-secrets shows secrets to every caller who may read: with authorization grant the permission secrets instead."
            )
        if self.enabled and not authenticated:
            problems.append("Authorization needs authenticated callers: give --authentication-providers.")
        if authenticated and not self.enabled and not self.allow_authenticated:
            problems.append(
                "Callers are authenticated, but nothing defines what they may do: give --authorization FILE, --authorization-by-brokers"
                " beside Pulsar, or --allow-authenticated if each of them may do everything."
            )
        return problems
