"""Checks whether the sidecar's address can be reached, and which protocol answers there."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from topicpolicies import Tls
from topicpolicies.addresses import Place, is_local, places_of

from .checks import Check, Finding, failed, in_thread, ok, skipped, why

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""How a client of HTTP/2 begins: the connection preface, and an empty SETTINGS frame."""
_SETTINGS = 4
"""The type of the frame SETTINGS, with which a server of HTTP/2 begins."""
_ANSWER_SECONDS = 6.0


class Speech(enum.Enum):
    """The protocol that answers at an address."""

    HTTP2 = "HTTP/2 without TLS"
    TLS_HTTP2 = "HTTP/2 over TLS"
    TLS_OTHER = "TLS without HTTP/2"
    HTTP1 = "HTTP/1"
    OTHER = "something that is not HTTP/2"
    SILENT = "nothing: it accepts the connection and does not answer"

    @property
    def tls(self) -> bool:
        """Whether the protocol begins with TLS."""
        return self in (Speech.TLS_HTTP2, Speech.TLS_OTHER)


def wants_tls(target: str, tls: bool | Tls | None) -> bool:
    """Whether clients use TLS to a target: as ``tls`` says, or if None, unless the target is on this machine."""
    return not is_local(target) if tls is None else tls is not False


def judged(speech: Speech, *, tls: bool) -> Finding:
    """Judges the protocol for a client that calls gRPC with or without TLS."""
    if speech is Speech.TLS_HTTP2 and not tls:
        return failed("the server uses TLS, and this client does not", "Say --tls; also --tls-ca FILE if its authority is your own.")
    if speech is Speech.HTTP2 and tls:
        remedy = "Give the server --tls-certificate and --tls-key; or say --no-tls if the network to it is safe."
        return failed("this client uses TLS, and the server does not", remedy)
    if speech in (Speech.HTTP2, Speech.TLS_HTTP2):
        return ok(speech.value)
    return failed(f"the address answers with {speech.value}, not with gRPC")


async def speech_at(place: Place) -> Speech:
    """Returns the protocol at a place. Connects with and without TLS at the same time; the first answer that identifies it counts.

    Raises:
        OSError: the connection is not accepted.
    """
    plain, secure = asyncio.ensure_future(_answer(place)), asyncio.ensure_future(_tls_protocol(place))
    pending: set[asyncio.Future[Any]] = {plain, secure}
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            while pending:
                _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                if (speech := _speech(plain, secure)) is not None:
                    return speech
    except TimeoutError:
        pass
    finally:
        for each in pending:
            each.cancel()
        await asyncio.gather(plain, secure, return_exceptions=True)
    return Speech.OTHER if plain.done() and not plain.cancelled() and plain.result() else Speech.SILENT


def _speech(plain: asyncio.Future[bytes], secure: asyncio.Future[str | None]) -> Speech | None:
    """Returns the protocol by the answers so far; None: it is not known yet.

    Raises:
        OSError: the connection was not accepted.
    """
    answer = plain.result() if plain.done() else b""
    if len(answer) >= 4 and answer[3] == _SETTINGS and not answer.startswith(b"HTTP"):
        return Speech.HTTP2
    if answer.startswith((b"HTTP/", b"<")):  # some servers refuse an unknown protocol with a page without a status line
        return Speech.HTTP1
    if secure.done() and secure.exception() is None:
        return Speech.TLS_HTTP2 if secure.result() == "h2" else Speech.TLS_OTHER
    return None


async def _answer(place: Place) -> bytes:
    """Returns the first bytes of the answer to the beginning of HTTP/2; empty: the connection was closed."""
    reader, writer = await opened(place)
    try:
        writer.write(_PREFACE)
        with contextlib.suppress(OSError):
            return await reader.read(64)
        return b""
    finally:
        await closed(writer)


async def _tls_protocol(place: Place) -> str | None:
    """Returns the protocol that a TLS server selects by ALPN; None: none. Its certificate is checked in ``certificates``."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    _, writer = await opened(place, context)
    try:
        found: ssl.SSLObject = writer.get_extra_info("ssl_object")
        return found.selected_alpn_protocol()
    finally:
        await closed(writer)


async def opened(
    place: Place, context: ssl.SSLContext | None = None, name: str | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Opens a connection.

    Args:
        place: the address.
        context: the TLS of the connection; None: no TLS.
        name: the name that the certificate must have; None: the host.

    Raises:
        OSError: the connection is not accepted, or the TLS handshake fails.
    """
    tls_name = None if context is None else name or place.host or "localhost"
    if place.path:
        return await asyncio.open_unix_connection(place.path, ssl=context, server_hostname=tls_name)
    *rest, last = await resolved(place)
    for address in rest:
        with contextlib.suppress(ConnectionError):
            return await asyncio.open_connection(address, place.port, ssl=context, server_hostname=tls_name)
    return await asyncio.open_connection(last, place.port, ssl=context, server_hostname=tls_name)


async def closed(writer: asyncio.StreamWriter) -> None:
    """Aborts a connection: an orderly close of TLS waits for the peer, which may outlast the command."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def resolved(place: Place) -> list[str]:
    """Returns the addresses of a place's host.

    Raises:
        OSError: the host has none.
    """
    found = await in_thread(socket.getaddrinfo, place.host, place.port, 0, socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


async def connected(place: Place) -> Finding:
    """Returns the finding whether connections to a place are accepted."""
    try:
        _, writer = await opened(place)
    except OSError as error:
        return failed(f"{place}: {why(error)}")
    await closed(writer)
    return ok(str(place))


def reaching(target: str, tls: bool | Tls | None) -> Sequence[Check]:
    """Returns the checks of the sidecar's address.

    Raises:
        ValueError: the address is invalid.
    """
    place, *rest = places_of(target)

    async def name() -> Finding:
        if place.path:
            return ok(place.path) if await in_thread(Path(place.path).exists) else failed(f"{place.path} does not exist")
        try:
            return ok(f"{place.host} is {', '.join(await resolved(place))}")
        except OSError as error:
            return failed(f"{place.host}: {why(error)}")

    async def speaks() -> Finding:
        return judged(await speech_at(place), tls=wants_tls(target, tls))

    async def others() -> Finding:
        if not rest:
            return skipped("there is only one address")
        lost = [str(other) for other in rest if (await connected(other)).level.value != "ok"]
        return failed(f"connections are not accepted at {', '.join(lost)}") if lost else ok(", ".join(map(str, rest)))

    return (
        Check(
            name="address.name",
            holds="the host name can be resolved",
            why="Clients find the server by its name.",
            run=name,
            remedy="Name the server with --server HOST:PORT or TOPICPOLICIES_SERVER, and check whether DNS knows the host.",
        ),
        Check(
            name="address.connect",
            holds="connections are accepted",
            why="Without a connection there is no call.",
            run=lambda: connected(place),
            remedy="Check whether the server runs, whether it listens there (serve --listen), and whether a firewall is in between.",
            needs=("address.name",),
        ),
        Check(
            name="address.grpc",
            holds="gRPC is spoken, with or without TLS as this client expects",
            why="Another service at the port, or TLS on one side only, ends every call.",
            run=speaks,
            remedy="Name the port that serve says it listens on, 6680 by default; not that of the metrics or of a broker.",
            needs=("address.connect",),
        ),
        Check(
            name="address.others",
            holds="the other addresses accept connections too",
            why="They are tried when the first does not answer.",
            run=others,
            remedy="Start the servers there, or remove the addresses from --server.",
        ),
    )
