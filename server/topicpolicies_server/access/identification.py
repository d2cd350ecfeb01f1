"""Finds out who calls, from the credentials of a call: its token first, then the certificate of its connection.

| a token is given | a certificate is given | who calls |
|---|---|---|
| yes, and the server takes tokens | | whom the token names; an invalid token is refused, whatever else was given |
| no, or the server takes no tokens | yes, and the server takes certificates | whom the certificate names |
| no | no | CREDENTIALS_MISSING |

A token of an issuer that the server knows is that issuer's, every other one Pulsar's. Verified tokens are remembered: with each further
call it is only checked whether the token has expired, and whether its key is still in force.

Source: ``AuthenticationProviderList`` and ``AuthenticationService`` of brokers.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping
from typing import NamedTuple, TypeAlias

from . import proxies
from .caller import Caller
from .caller_cache import USUAL
from .certificates import Certificates
from .issuers import Issuers, KeysKnown
from .refusals import invalid, missing
from .signed import read_unverified
from .tokens import Tokens


class CallCredentials(NamedTuple):
    """The credentials of a call."""

    authorization: str | None = None
    """The call's metadata ``authorization``; None: it has none."""
    certificate: bytes | None = None
    """The client's certificate, PEM, as TLS has verified it; None: there is none."""
    original: str = ""
    """The principal for whom the call says that it speaks; "": none."""


Answer: TypeAlias = Caller | Awaitable[Caller]
"""The caller; or an awaitable that finds out, if an issuer's keys are needed."""
_SCHEME = "bearer"


class Identification:
    """Finds out who calls."""

    def __init__(
        self,
        *,
        tokens: Tokens | None = None,
        issuers: Issuers | None = None,
        certificates: Certificates | None = None,
        proxy_roles: frozenset[str] = frozenset(),
    ) -> None:
        """Creates the object. Each way is None if the server does not take it. ``proxy_roles``: the principals that may call for others."""
        self._tokens = tokens
        self._issuers = issuers
        self._certificates = certificates
        self.proxies = proxy_roles
        """The principals that call for others."""
        self.callers: Mapping[str, Caller] = tokens.callers if tokens is not None else {}
        """Callers by the metadata ``authorization``: Pulsar's tokens that were verified with a key that is in force. A lookup that finds no
        caller, a caller whose credentials are not valid now, or a proxy, is followed by ``known``, and then by ``caller``."""
        ways = [
            *(["a token (metadata authorization: Bearer TOKEN)"] if tokens is not None or issuers is not None else []),
            *(["a client certificate (TLS)"] if certificates is not None else []),
        ]
        self._wanted = ", or ".join(ways)

    @property
    def reads_certificates(self) -> bool:
        """Whether the server takes certificates."""
        return self._certificates is not None

    def kept(self) -> dict[str, tuple[int, int]]:
        """Returns how many tokens and certificates are remembered, and how many at most, by kind. Any thread may call this."""
        found: dict[str, tuple[int, int]] = {}
        for each in (self._tokens, self._issuers, self._certificates):
            found |= each.kept() if each is not None else {}
        return found

    def keys(self) -> KeysKnown | None:
        """Returns what is known of the issuers' keys; None: there are no issuers. Any thread may call this."""
        return self._issuers.keys() if self._issuers is not None else None

    def known(self, authorization: str, now: float, moment: float) -> Caller | None:
        """Returns who calls with this ``authorization`` for itself, if its token was verified before; None: ``caller`` has to find out.

        Raises:
            PolicyError: CREDENTIALS_EXPIRED: the token has expired since.
        """
        if not authorization.startswith(USUAL):
            return None
        tokens, issuers, token = self._tokens, self._issuers, authorization[len(USUAL) :]
        found = tokens.known(token, now) if tokens is not None else None
        if found is None and issuers is not None:
            found = issuers.known(token, now, moment)
        return None if found is None or found.principal in self.proxies else found

    def caller(self, given: CallCredentials, now: float, moment: float) -> Answer:
        """Returns who calls.

        Args:
            given: the credentials of the call.
            now: the time, in seconds since 1970.
            moment: monotonic seconds.

        Raises:
            PolicyError: UNAUTHENTICATED: the credentials name no caller; PERMISSION_DENIED: the caller speaks for another and may not, or
                has to and does not; UNAVAILABLE: this can't be known now.
        """
        found = self._verified(given, now, moment)
        if not isinstance(found, Caller):
            return self._later(found, given.original)
        return self._speaking(found, given.original)

    def check(self, given: CallCredentials, now: float, moment: float) -> None:
        """Checks the credentials of a call as far as that needs no answer of an issuer. The arguments are those of ``caller``.

        Raises:
            PolicyError: as ``caller``.
        """
        found = self._verified(given, now, moment)
        if isinstance(found, Caller):
            self._speaking(found, given.original)
        elif inspect.iscoroutine(found):
            found.close()  # it has not begun

    def _verified(self, given: CallCredentials, now: float, moment: float) -> Answer:
        if given.authorization is not None and (self._tokens is not None or self._issuers is not None):
            return self._of_token(_bearer(given.authorization), now, moment)
        if given.certificate is not None and self._certificates is not None:
            return self._certificates.caller(given.certificate, now)
        raise missing(self._wanted)

    def _of_token(self, token: str, now: float, moment: float) -> Answer:
        tokens, issuers = self._tokens, self._issuers
        known = tokens.known(token, now) if tokens is not None else None
        if known is None and issuers is not None:
            known = issuers.known(token, now, moment)
        if known is not None:
            return known
        said = read_unverified(token)
        if issuers is not None and (tokens is None or said.issuer in issuers):
            return issuers.caller(token, said, now, moment)
        assert tokens is not None, "one of them is there"
        return tokens.caller(token, now)

    def _speaking(self, caller: Caller, original: str) -> Caller:
        return proxies.speaking(caller, original, self.proxies) if original or self.proxies else caller

    async def _later(self, found: Awaitable[Caller], original: str) -> Caller:
        return self._speaking(await found, original)


def _bearer(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != _SCHEME or not token.strip():
        raise invalid("The metadata authorization has no token: write Bearer TOKEN.")
    return token.strip()
