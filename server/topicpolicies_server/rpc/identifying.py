"""The door that identifies callers (``access``): by a token in the call's metadata, or by the client certificate of its connection.

The health service answers callers without credentials, because its clients (``grpc_health_probe``, an orchestrator) have none. Credentials
that they do send are verified all the same.

Nearly every call has a token that was verified before. ``Identifying.__call__`` lets such a call pass without calling other functions of
ours: between two calls gRPC and the kernel push our code out of the processor's caches, so each function costs several times what it does
in a loop.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from grpc_health.v1 import health_pb2

from ..access import NOBODY, Caller
from ..access.identification import CallCredentials, Identification
from ..access.proxies import KEY as ORIGINAL_KEY
from ..access.refusals import invalid
from ..core.errors import PolicyError
from .call import Call, Metadata

AUTHORIZATION_KEY = "authorization"
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name + "/"
_CERTIFICATE = "x509_pem_cert"
"""The property of gRPC's authentication context that has the PEM of a verified client certificate."""


class Identifying:
    """A door that sets ``Call.caller``, or refuses the call."""

    def __init__(
        self,
        identification: Identification,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Identifies callers with ``identification``. ``wall``: seconds since 1970; ``steady``: monotonic seconds."""
        self._identification = identification
        self._callers, self._proxies = identification.callers, identification.proxies
        self._wall = wall
        self._steady = steady

    def __call__(self, call: Call) -> Awaitable[None] | None:
        """Identifies the caller: at once (None), or once what is returned has been awaited.

        Raises:
            PolicyError: UNAUTHENTICATED, a credential is given twice; and as ``Identification.caller``.
        """
        authorization, original = None, ""
        for key, value in call.metadata:
            if key == AUTHORIZATION_KEY:
                if authorization is not None:
                    raise _twice(AUTHORIZATION_KEY)
                authorization = value if isinstance(value, str) else _text(value)
            elif key == ORIGINAL_KEY:
                if original:
                    raise _twice(ORIGINAL_KEY)
                original = value if isinstance(value, str) else _text(value)
        now = self._wall()
        if authorization is not None and not original:
            known = self._callers.get(authorization)
            if known is not None and known.principal not in self._proxies and known.begins_at <= now < known.expires_at:
                call.caller = known
                return None
        moment = self._steady()
        if authorization is not None and not original:
            known = self._identification.known(authorization, now, moment)
            if known is not None:
                call.caller = known
                return None
        given = CallCredentials(authorization, self._certificate(call), original)
        if given == _NOTHING and call.method.startswith(_HEALTH):
            call.caller = NOBODY
            return None
        found = self._identification.caller(given, now, moment)
        if not isinstance(found, Caller):
            return self._later(call, found)
        call.caller = found
        return None

    def refusal(self, method: str, metadata: Metadata) -> PolicyError | None:
        """Returns what a call is refused with because of its metadata, before its request has arrived (``calls.Refusal``).

        None: it may pass, or that depends on its certificate or on an issuer's answer.
        """
        if self._identification.reads_certificates:
            return None  # its peer has a certificate of the authority
        authorization: str | bytes | None = None
        original: str | bytes | None = None
        for key, value in metadata:
            if key == AUTHORIZATION_KEY:
                if authorization is not None:
                    return _twice(key)
                authorization = value
            elif key == ORIGINAL_KEY:
                if original:
                    return _twice(key)
                original = value
        now = self._wall()
        if original is None and isinstance(authorization, str):
            known = self._callers.get(authorization)
            if known is not None and known.principal not in self._proxies and known.begins_at <= now < known.expires_at:
                return None
        given = CallCredentials(_text(authorization) if authorization is not None else None, None, _text(original or ""))
        if given == _NOTHING and method.startswith(_HEALTH):
            return None
        try:
            self._identification.check(given, now, self._steady())
        except PolicyError as error:
            return error
        return None

    def is_stranger(self, method: str, metadata: Metadata) -> bool:
        """Returns whether a call has no credentials, and is let in without: it is of the health service (``calls.Refusal``)."""
        if self._identification.reads_certificates or not method.startswith(_HEALTH):
            return False
        return not any(key in (AUTHORIZATION_KEY, ORIGINAL_KEY) for key, _ in metadata)

    async def _later(self, call: Call, found: Awaitable[Caller]) -> None:
        call.caller = await found

    def _certificate(self, call: Call) -> bytes | None:
        """Returns the PEM of the connection's certificate; None if there is none or certificates do not identify callers.

        It is not looked up in vain, because gRPC builds a whole dictionary for each look-up.
        """
        if not self._identification.reads_certificates:
            return None
        found: bytes | None = next(iter(call.context.auth_context().get(_CERTIFICATE, ())), None)
        return found


def _twice(key: str) -> PolicyError:
    """Returns the error for a call that gives a credential twice."""
    return invalid(f"The metadata {key} is given twice.")


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")


_NOTHING = CallCredentials()
