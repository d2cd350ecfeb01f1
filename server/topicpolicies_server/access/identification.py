"""Who calls, of everything that a call gives: tokens first, then the certificate of its connection.

| a token is given | a certificate is given | who calls |
|---|---|---|
| yes, and tokens are taken here | | whom the token names; one that does not hold is refused, whatever else was given |
| no, or tokens are not taken here | yes, and certificates are taken here | whom the certificate names |
| no | no | CREDENTIALS_MISSING |

A token of an issuer that the server knows is that issuer's, every other one Pulsar's. Tokens that were verified are remembered: what has to
be asked again about one each time is only whether it has expired, and whether its key is still in force.

Source: ``AuthenticationProviderList`` and ``AuthenticationService`` of brokers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import NamedTuple, TypeAlias

from . import proxies
from .caller import Caller
from .certificates import Certificates
from .issuers import Issuers, KeysKnown
from .refusals import invalid, missing
from .remembered import USUAL
from .signed import look
from .tokens import Tokens


class Given(NamedTuple):
    """What a call gives of who makes it."""

    authorization: str | None = None
    """Its metadata ``authorization``; None: it has none."""
    certificate: bytes | None = None
    """PEM, as TLS has verified it."""
    original: str = ""
    """For whom it says that it speaks."""


Answer: TypeAlias = Caller | Awaitable[Caller]
"""Who calls; or what finds that out, if somebody has to be asked."""
_SCHEME = "bearer"


class Identification:
    """Says who calls."""

    def __init__(
        self,
        *,
        tokens: Tokens | None = None,
        issuers: Issuers | None = None,
        certificates: Certificates | None = None,
        proxy_roles: frozenset[str] = frozenset(),
    ) -> None:
        """Each way is None where it is not taken."""
        self._tokens = tokens
        self._issuers = issuers
        self._certificates = certificates
        self.proxies = proxy_roles
        """Principals that call for others."""
        self.callers: Mapping[str, Caller] = tokens.callers if tokens is not None else {}
        """Who calls, by the metadata ``authorization``: tokens of Pulsar's that were verified with a key that is in force. Where somebody
        finds nobody in it, or one whose time it is not, or a proxy, he asks ``known``, and then ``caller``."""
        ways = [
            *(["a token (metadata authorization: Bearer TOKEN)"] if tokens is not None or issuers is not None else []),
            *(["a client certificate (TLS)"] if certificates is not None else []),
        ]
        self._wanted = ", or ".join(ways)

    @property
    def reads_certificates(self) -> bool:
        """Whether certificates say anything."""
        return self._certificates is not None

    def kept(self) -> dict[str, tuple[int, int]]:
        """By what it is: how much is remembered, and how much at most; any thread may ask."""
        found: dict[str, tuple[int, int]] = {}
        for each in (self._tokens, self._issuers, self._certificates):
            found |= each.kept() if each is not None else {}
        return found

    def keys(self) -> KeysKnown | None:
        """What is known of the keys of issuers; None: there are none. Any thread may ask."""
        return self._issuers.keys() if self._issuers is not None else None

    def known(self, authorization: str, now: float, moment: float) -> Caller | None:
        """Who calls, of a call that gives this and speaks for nobody, if its token was verified before; None: ``caller`` finds it out.

        Raises:
            PolicyError: CREDENTIALS_EXPIRED, the token has expired since.
        """
        if not authorization.startswith(USUAL):
            return None
        tokens, issuers, token = self._tokens, self._issuers, authorization[len(USUAL) :]
        found = tokens.known(token, now) if tokens is not None else None
        if found is None and issuers is not None:
            found = issuers.known(token, now, moment)
        return None if found is None or found.principal in self.proxies else found

    def caller(self, given: Given, now: float, moment: float) -> Answer:
        """Who calls.

        Args:
            given: what the call gives.
            now: the time, in seconds since 1970.
            moment: seconds of a clock that does not go back.

        Raises:
            PolicyError: UNAUTHENTICATED, nobody who can be told; PERMISSION_DENIED, it speaks for another and may not, or has to and does
                not; UNAVAILABLE, that can't be known now.
        """
        found = self._verified(given, now, moment)
        if not isinstance(found, Caller):
            return self._later(found, given.original)
        return self._speaking(found, given.original)

    def _verified(self, given: Given, now: float, moment: float) -> Answer:
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
        said = look(token)
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
        raise invalid("The metadata authorization has no token in it: it is Bearer TOKEN.")
    return token.strip()
