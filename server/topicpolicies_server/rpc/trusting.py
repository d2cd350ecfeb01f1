"""The door that checks whether the authority of a connection's client certificate is still trusted, once the authorities have changed.

TLS has checked the certificate when the connection was made, against the authorities of that time. As long as these are in force, nothing
is checked again. Once others are, every call is checked when it begins, and every stream that is open at that moment. A caller whose
certificate does not hold any more is refused whatever it calls, health included, for it would get no connection now. Its streams are ended
(``leaving``); a call with one answer that has begun is finished.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ..access.refusals import invalid
from ..access.trust import Trust, certificates_of
from ..core.errors import PolicyError
from .call import Call
from .calls import Only
from .failures import Failures
from .leaving import Leaving, may_stay

_CERTIFICATE, _BESIDE = "x509_pem_cert", "x509_pem_cert_chain"
"""The properties of gRPC's authentication context with the client's certificate, and with the others of its chain."""
_TURN = 200
"""Streams that are checked before the event loop has its turn."""


class Trusting:
    """The first door: refuses calls, and ends streams, whose client certificates are not trusted any more. Its observer is ``ends``."""

    def __init__(self) -> None:
        """Begins with the authorities that TLS checks against: nothing is checked again."""
        self._trust: Trust | None = None
        self._streams: dict[Call, None] = {}
        self.ends = _Ends(self.ended)
        """The observer of the ends of streams."""
        self._leaving = Leaving()
        self._failures = Failures()
        self._loop = asyncio.get_running_loop()

    def __call__(self, call: Call) -> None:
        """Lets a call pass if its certificate still holds.

        Raises:
            PolicyError: UNAUTHENTICATED, the authority is not trusted any more.
        """
        if may_stay(call):
            self._streams[call] = None
        if self._trust is not None and not _holds(self._trust, call):
            raise _untrusted()

    def ended(self, call: Call) -> None:
        """Forgets a call that has ended."""
        self._streams.pop(call, None)
        self._leaving.ended(call)

    def take(self, authorities: bytes) -> None:
        """Puts other authorities in force, and checks the open streams.

        Args:
            authorities: the certificates of the authorities, as PEM.
        """
        self._trust = Trust(certificates_of(authorities))
        self._ask(self._trust, deque(self._streams))

    def _ask(self, trust: Trust, left: deque[Call]) -> None:
        """Checks some streams, and schedules the check of the others, unless yet other authorities are in force by then."""
        if trust is not self._trust:
            return
        for _ in range(min(_TURN, len(left))):
            call = left.popleft()
            if call in self._streams and not self._still_holds(trust, call):
                self._leaving.leave(call, _untrusted())
        if left:
            self._loop.call_soon(self._ask, trust, left)

    def _still_holds(self, trust: Trust, call: Call) -> bool:
        """As ``_holds``, but a stream whose check fails counts as not trusted, so that the streams behind it are checked too."""
        try:
            return _holds(trust, call)
        except Exception as error:  # noqa: BLE001 (told)
            self._failures.log("Checking the authority of an open stream", error)
            return False


class _Ends:
    """The observer of the door ``Trusting``, limited to streams. The door itself is not: every call passes it."""

    only = Only.STREAMS

    def __init__(self, ended: Callable[[Call], None]) -> None:
        self.ended = ended


def _holds(trust: Trust, call: Call) -> bool:
    shown = call.context.auth_context()
    certificate = next(iter(shown.get(_CERTIFICATE, ())), b"")
    return trust.holds(certificate, next(iter(shown.get(_BESIDE, ())), b""))


def _untrusted() -> PolicyError:
    return invalid("The authority of this connection's client certificate is not trusted any more: connect with another one.")
