"""The door at which it is asked whether the authority of a connection's client certificate is still trusted.

TLS has asked when the connection was made, of the authorities of then. As long as they are the same ones, nothing is asked. Once they are
others, each call is asked, and so is each stream that is open at that moment: who is not trusted any more is refused whatever he asks for,
the health included, as he would get no connection now. His streams end (``leaving``); a call with one answer that has begun is finished.
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
"""Where gRPC has what the client of a connection has shown: its certificate, and others that lead from that to an authority."""
_TURN = 200
"""Streams that are asked before others have their turn."""


class Trusting:
    """Refuses and ends. It is the first door, and has an observer (``ends``)."""

    def __init__(self) -> None:
        """The authorities are those of the start."""
        self._trust: Trust | None = None
        self._streams: dict[Call, None] = {}
        self.ends = _Ends(self.ended)
        """Told of the ends of streams."""
        self._leaving = Leaving()
        self._failures = Failures()
        self._loop = asyncio.get_running_loop()

    def __call__(self, call: Call) -> None:
        """The door.

        Raises:
            PolicyError: UNAUTHENTICATED, the authority is not trusted any more.
        """
        if may_stay(call):
            self._streams[call] = None
        if self._trust is not None and not _holds(self._trust, call):
            raise _untrusted()

    def ended(self, call: Call) -> None:
        """A call has ended."""
        self._streams.pop(call, None)
        self._leaving.ended(call)

    def take(self, authorities: bytes) -> None:
        """Others are trusted from now on.

        Args:
            authorities: PEM.
        """
        self._trust = Trust(certificates_of(authorities))
        self._ask(self._trust, deque(self._streams))

    def _ask(self, trust: Trust, left: deque[Call]) -> None:
        """Asks some streams, and then the next ones, unless others are trusted by then."""
        if trust is not self._trust:
            return
        for _ in range(min(_TURN, len(left))):
            call = left.popleft()
            if call in self._streams and not self._still_holds(trust, call):
                self._leaving.leave(call, _untrusted())
        if left:
            self._loop.call_soon(self._ask, trust, left)

    def _still_holds(self, trust: Trust, call: Call) -> bool:
        """As ``_holds``. Whatever its peer has shown, the streams behind it are asked, too: one that can't be asked ends."""
        try:
            return _holds(trust, call)
        except Exception as error:  # noqa: BLE001 (told)
            self._failures.tell("Asking for the authority of an open stream", error)
            return False


class _Ends:
    """An observer of streams; all calls pass the door."""

    only = Only.STREAMS

    def __init__(self, ended: Callable[[Call], None]) -> None:
        self.ended = ended


def _holds(trust: Trust, call: Call) -> bool:
    shown = call.context.auth_context()
    certificate = next(iter(shown.get(_CERTIFICATE, ())), b"")
    return trust.holds(certificate, next(iter(shown.get(_BESIDE, ())), b""))


def _untrusted() -> PolicyError:
    return invalid("The authority of this connection's client certificate is not trusted any more: connect with another one.")
