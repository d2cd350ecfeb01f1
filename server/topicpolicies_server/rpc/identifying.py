"""Identifies callers (``access``): by a token in the call's metadata, or by the client certificate of its connection.

The health service answers callers without credentials, because its clients (``grpc_health_probe``, an orchestrator) have none. Credentials
that they do send are verified all the same.
"""

from __future__ import annotations

from collections.abc import Awaitable

from grpc_health.v1 import health_pb2

from ..access import NOBODY, Caller
from ..access.identification import ORIGINAL_KEY, CallCredentials, Identification
from ..access.refusals import invalid
from ..core.errors import PolicyError
from .calls import Call

AUTHORIZATION_KEY = "authorization"
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name + "/"
_CERTIFICATE = "x509_pem_cert"
"""The property of gRPC's authentication context that has the PEM of a verified client certificate."""


class Identifying:
    """Finds out who makes a call."""

    def __init__(self, identification: Identification) -> None:
        """``identification``: verifies credentials."""
        self._identification = identification

    def __call__(self, call: Call) -> Caller | Awaitable[Caller]:
        """Returns the caller, or an awaitable that finds out (``calls.Identify``).

        Raises:
            PolicyError: UNAUTHENTICATED, a credential is given twice; and as ``Identification.caller``.
        """
        authorization, original = None, ""
        for key, value in call.metadata:
            if key == AUTHORIZATION_KEY:
                if authorization is not None:
                    raise _twice(AUTHORIZATION_KEY)
                authorization = value if isinstance(value, str) else value.decode(errors="replace")
            elif key == ORIGINAL_KEY:
                if original:
                    raise _twice(ORIGINAL_KEY)
                original = value if isinstance(value, str) else value.decode(errors="replace")
        given = CallCredentials(authorization, self._certificate(call), original)
        if given == _NOTHING and call.method.startswith(_HEALTH):
            return NOBODY
        return self._identification.caller(given)

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


_NOTHING = CallCredentials()
