"""The gRPC server, its options and its address; and its certificate, its key and the authorities of client certificates.

gRPC asks for certificates at each handshake, on threads of its own, and is given what has been read and checked already. An open connection
keeps what it was made with; where clients have certificates it is closed after ten minutes, so that its client shows one again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from .. import files
from ..config import Address, Limits, TlsConfig
from ..files import Reloader

RECEIVED_TIMES = 4
"""A message of up to so many times the limit is received, to be refused with a reason; gRPC itself refuses larger ones, without one."""
_LEAST_PENDING = 3_000
"""The least number of calls that may have arrived and not begun; it is the default of gRPC's hard limit."""
_KEEPALIVE_SECONDS = 30.0
"""How long a connection may be without traffic before it is probed."""
HANDSHAKE_SECONDS = 10.0
"""How long a peer may take to make a connection: TLS, and the beginning of HTTP/2. By default it has two minutes, and a file descriptor."""
CONNECTION_SECONDS, LAST_SECONDS = 600.0, 30.0
"""How long a connection of a client with a certificate is open, and how long its calls may take then: the client connects again, and its
certificate is checked against the authorities that are trusted by then."""


def grpc_server(limits: Limits, *, mutual_tls: bool) -> grpc.aio.Server:
    """Returns a server that does not listen yet. ``mutual_tls``: whether clients have certificates."""
    lasting = [
        ("grpc.max_connection_age_ms", int(CONNECTION_SECONDS * 1000)),
        ("grpc.max_connection_age_grace_ms", int(LAST_SECONDS * 1000)),
    ]
    pending = max(limits.max_concurrent_calls, _LEAST_PENDING)
    return grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", RECEIVED_TIMES * limits.max_message_bytes),
            # With gRPC's defaults, calls of a burst are cancelled without a reason before our own limit (LIMIT_REACHED) is reached.
            ("grpc.server.max_pending_requests", pending),
            ("grpc.server.max_pending_requests_hard_limit", pending),
            ("grpc.so_reuseport", 0),
            ("grpc.enable_channelz", 0),  # its records of each call, which nobody can request, take a twentieth of a call's processor time
            ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_SECONDS * 1000)),
            ("grpc.keepalive_time_ms", int(_KEEPALIVE_SECONDS * 1000)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5000),
            *(lasting if mutual_tls else []),
        ],
        maximum_concurrent_rpcs=2 * limits.max_concurrent_calls,  # calls beyond our limit still begin, to be refused with a reason
    )


def bind(server: grpc.aio.Server, address: Address, credentials: grpc.ServerCredentials | None) -> Address:
    """Binds an address, with TLS if there are credentials. Returns the address, with the port that the system chose.

    The server must be started then: gRPC gives an address back in no other way than by stopping a server that was started.

    Raises:
        OSError: the server can't listen on the address.
    """
    where = str(address)
    try:
        port = server.add_secure_port(where, credentials) if credentials is not None else server.add_insecure_port(where)
    except RuntimeError as error:  # gRPC gives the reason only in a log line of its own
        raise OSError(f"{address} can't be listened on") from error
    return address if address.path else address._replace(port=port)


def keep_quiet() -> None:
    """Keeps gRPC's server from logging that a peer has gone while its answer was sent, with a traceback, for the whole process.

    Any caller with a short deadline could cause that as often as it likes.
    """
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_worth_a_line)


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], grpc.aio.InternalError)


class Pem(NamedTuple):
    """The contents of the files. ``authority``: None where client certificates are not asked for."""

    certificate: bytes
    key: bytes
    authority: bytes | None
    ends_at: float
    """When the first certificate of the chain expires, in seconds since 1970."""

    def __repr__(self) -> str:
        return "Pem(...)"  # the key must not get into logs


def read_pem(tls: TlsConfig) -> Pem:
    """Reads the files, and checks that they can be used: the key fits the certificate, and the authorities can be read.

    Raises:
        OSError: the files can't be read or used. Its message contains nothing of what they hold.
    """
    from cryptography import x509  # noqa: PLC0415 - it takes a tenth of a second to import, and servers without TLS need none of it
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    def certificates(pem: bytes) -> list[x509.Certificate]:
        found = x509.load_pem_x509_certificates(pem)
        if len(found) < pem.count(b"-----BEGIN CERTIFICATE-----"):
            raise ValueError("one of them is cut off")
        return found

    certificate, key = files.read(tls.certificate_file), files.read(tls.key_file)
    authority = files.read(tls.client_ca_file) if tls.client_ca_file is not None else None
    try:
        chain = certificates(certificate)
        fits = chain[0].public_key() == load_pem_private_key(key, None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise OSError(f"{tls.certificate_file} and {tls.key_file} are not a certificate and key in PEM without a password") from None
    if not fits:
        raise OSError(f"the key {tls.key_file} does not belong to the certificate {tls.certificate_file}")
    try:
        if authority is not None:
            certificates(authority)
    except ValueError:
        raise OSError(f"{tls.client_ca_file} has no certificates of an authority in PEM") from None
    return Pem(certificate, key, authority, min(each.not_valid_after_utc.timestamp() for each in chain))


class ServerCertificates:
    """The certificate that a server presents, and the authorities whose client certificates it accepts."""

    def __init__(self, tls: TlsConfig) -> None:
        """Reads the files.

        Raises:
            OSError: as ``read_pem``.
        """
        self._tls = tls
        self._first = read_pem(tls)
        self.ends_at = self._first.ends_at
        """When the first certificate of the chain in force expires, in seconds since 1970."""
        self._next: grpc.ServerCertificateConfiguration | None = None

    def credentials(self) -> grpc.ServerCredentials:
        """Returns the credentials for one address of a server."""
        strict = self._tls.client_ca_file is not None
        fetch: Callable[[], Any] = self._fetch  # gRPC's types do not say that it may be None
        return grpc.dynamic_ssl_server_credentials(_configuration(self._first), fetch, require_client_authentication=strict)

    def follow(self, reloader: Reloader) -> None:
        """Has ``reloader`` read the files again from now on."""
        tls = self._tls
        files = [each for each in (tls.certificate_file, tls.key_file, tls.client_ca_file) if each is not None]
        reloader.add("TLS of the server", files, lambda: read_pem(tls), self._take, self._first)

    def _take(self, pem: Pem) -> None:
        self._next = _configuration(pem)
        self.ends_at = pem.ends_at

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Returns the new configuration; None: there is none. Threads of gRPC call this, and must not be blocked."""
        found, self._next = self._next, None
        return found


def _configuration(pem: Pem) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.certificate)], pem.authority)
