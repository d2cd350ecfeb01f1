"""Finds out who calls, from the credentials of a call: its token first, then the certificate of its connection.

| a token is given | a certificate is given | who calls |
|---|---|---|
| yes, and the server takes tokens | | whom the token names; an invalid token is refused, whatever else was given |
| no, or the server takes no tokens | yes, and the server takes certificates | whom the certificate names |
| no | no | CREDENTIALS_MISSING |

A token of an issuer that the server knows is that issuer's, every other one Pulsar's. Verified tokens are remembered until they expire, or
a key changes. Only valid ones are: callers that can't sign tokens can't fill the memory.

*Proxies* call for others, and must say for whom. Other principals must not (``PROXY_REFUSED``).

Source: ``AuthenticationProviderList``, ``AuthenticationService`` and ``AuthorizationService.isValidOriginalPrincipal`` of brokers.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TypeAlias

from cryptography import x509
from cryptography.x509.oid import NameOID

from ..config import AuthenticationConfig
from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from ..files import Reloader
from . import keys
from .caller import NOBODY, ORIGINAL_KEY, Caller, Way, expired, invalid
from .issuers import Issuer, fetch_keys, key_set, trusting
from .tokens import MOST_ROLE, NOT_A_ROLE, Tokens, is_role, read_unverified

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
AUTHORIZATION_KEY = "authorization"
MOST = 1_024
"""How many verified tokens are remembered; the one that was stored first makes room for another."""
_SCHEME = "bearer"
_MOST_KNOWN = 1_024


class Identification:
    """Finds out who calls."""

    def __init__(
        self,
        *,
        tokens: Tokens | None = None,
        certificates: bool = False,
        proxy_roles: frozenset[str] = frozenset(),
    ) -> None:
        """Creates the object with the ways that the server takes. ``proxy_roles``: the principals that may call for others."""
        self.tokens = tokens
        self.issuers: dict[str, Issuer] = {}
        """The issuers whose tokens the server takes, by their names."""
        self._certificates = certificates
        self._proxies = proxy_roles
        self._remembered: OrderedDict[str, Caller] = OrderedDict()

    def forget(self) -> None:
        """Forgets all tokens, because keys have changed."""
        self._remembered.clear()

    async def caller(self, metadata: Metadata, certificate: Callable[[], bytes | None] = lambda: None, *, needed: bool = True) -> Caller:
        """Returns who calls. It waits only if an issuer has to be asked for its keys.

        Args:
            metadata: the metadata of the call.
            certificate: returns the client's certificate, PEM, as TLS has verified it; None: there is none.
            needed: whether a call without credentials is refused; otherwise its caller is ``NOBODY``.

        Raises:
            PolicyError: UNAUTHENTICATED: the credentials name no caller, or are given twice; PERMISSION_DENIED: the caller speaks for
                another and may not, or has to and does not; UNAVAILABLE: this can't be known now.
        """
        authorization, original = _only(AUTHORIZATION_KEY, metadata), _only(ORIGINAL_KEY, metadata) or ""
        if authorization is not None and (self.tokens is not None or self.issuers):
            known = self._remembered.get(authorization)
            if known is None or time.time() >= known.expires_at:
                known = await self._of_token(authorization)
                if len(self._remembered) >= MOST:
                    self._remembered.popitem(last=False)
                self._remembered[authorization] = known
        elif self._certificates and (shown := certificate()) is not None:
            known = caller_of_certificate(shown)
            if time.time() >= known.expires_at:
                raise expired("client certificate")
        elif not needed and authorization is None and not original:
            return NOBODY
        else:
            raise PolicyError(
                Kind.UNAUTHENTICATED, Reason.CREDENTIALS_MISSING, f"This server authenticates callers: give {self._wanted()}."
            )
        return self._speaking(known, original)

    async def close(self) -> None:
        """Ends requests to issuers."""
        await asyncio.gather(*(each.close() for each in self.issuers.values()))

    async def _of_token(self, authorization: str) -> Caller:
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != _SCHEME or not token:
            raise invalid("The metadata authorization has no token: write Bearer TOKEN.")
        if self.issuers:
            said = read_unverified(token)
            if (issuer := self.issuers.get(said.issuer)) is not None:
                return await issuer.caller(token, said)
        if self.tokens is None:
            raise invalid("The token is from an issuer that this server does not accept.")
        return self.tokens.caller(token)

    def _speaking(self, caller: Caller, original: str) -> Caller:
        """Returns the caller with the principal for whom it says that it speaks."""
        if caller.principal not in self._proxies:
            if original:
                raise _refused(f"{caller.principal} is not a proxy, so it may call only for itself: leave out the metadata {ORIGINAL_KEY}.")
            return caller
        if not original:
            raise _refused(f"{caller.principal} is a proxy: name the principal for which it calls in the metadata {ORIGINAL_KEY}.")
        if original in self._proxies:
            raise _refused(f"{caller.principal} is a proxy, and may not call for another proxy.")
        if not is_role(original):
            raise _refused(f"The metadata {ORIGINAL_KEY} is not a principal: write at most {MOST_ROLE} characters, all of them printable.")
        return caller._replace(speaks_for=original)

    def _wanted(self) -> str:
        tokens = ["a token (metadata authorization: Bearer TOKEN)"] if self.tokens is not None or self.issuers else []
        return ", or ".join([*tokens, *(["a client certificate (TLS)"] if self._certificates else [])])


def open_identification(config: AuthenticationConfig, reloader: Reloader) -> Identification:
    """Opens the authentication of callers; issuers are asked for their keys from now on, on the running event loop.

    Raises:
        RuntimeError: a file can't be used.
    """
    found = Identification(certificates=config.certificate, proxy_roles=frozenset(config.proxy_roles))
    if config.token is not None:
        found.tokens = tokens = Tokens((), config.token, config.leeway_seconds)

        def take(known: tuple[keys.Key, ...]) -> None:
            tokens.keys = known
            found.forget()

        if config.token.secret_key_file is not None:
            reloader.follow("token secret key", config.token.secret_key_file, keys.secret_keys, take)
        elif config.token.public_key_file is not None:
            reloader.follow("token public key", config.token.public_key_file, keys.public_keys, take)
    if (oidc := config.oidc) is not None:
        fetch = partial(fetch_keys, trusting(oidc.trust_certs_file)) if oidc.jwks_file is None else None
        for name in oidc.issuers:
            issuer = found.issuers[name] = Issuer(name, oidc, fetch, found.forget, leeway=config.leeway_seconds)
            issuer.ask()
            if oidc.jwks_file is not None:
                reloader.follow("OpenID Connect keys", oidc.jwks_file, key_set, issuer.take)
    return found


def _only(key: str, metadata: Metadata) -> str | None:
    """Returns the value that the metadata have for a key; None: there is none."""
    found = None
    for name, value in metadata:
        if name == key:
            if found is not None:
                raise invalid(f"The metadata {key} is given twice.")
            found = value if isinstance(value, str) else value.decode(errors="replace")
    return found


def _refused(message: str) -> PolicyError:
    return PolicyError(Kind.PERMISSION_DENIED, Reason.PROXY_REFUSED, message)


@lru_cache(_MOST_KNOWN)
def caller_of_certificate(pem: bytes) -> Caller:
    """Returns the caller that a client certificate names, which TLS has verified: by its subject's common name, as brokers take it.

    Of several names it is the most specific, which is the last (``AuthenticationProviderTls``). A connection makes many calls, so
    certificates are remembered.

    Raises:
        PolicyError: CREDENTIALS_INVALID: the certificate names no role.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        roles = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    except (ValueError, x509.InvalidVersion) as error:
        raise invalid("The client certificate can't be read.") from error
    if not roles:
        raise invalid("The client certificate has no common name, which this server takes for the role.")
    if not is_role(roles[-1]):
        raise invalid(f"The role in the client certificate {NOT_A_ROLE}.")
    return Caller(roles[-1], Way.CERTIFICATE, expires_at=certificate.not_valid_after_utc.timestamp())
