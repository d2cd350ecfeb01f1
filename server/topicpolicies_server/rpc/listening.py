"""The gRPC server, its options, and the address that it listens on.

=========  ==========  =========  ===============================================================================
state      event       next       what is done
=========  ==========  =========  ===============================================================================
NEW        bind        BOUND      the system reserves the address: clients can connect from now on
BOUND      start       BEGUN      calls are accepted
NEW        close       CLOSED     nothing
BOUND      close       CLOSED     the server is started and stopped: gRPC gives an address back in no other way
BEGUN      close       CLOSED     calls that are left are ended at once
=========  ==========  =========  ===============================================================================
"""

from __future__ import annotations

import logging

import grpc

from ..config import Address, Limits

RECEIVED_TIMES = 4
"""A message of up to so many times the limit is received, to be refused with a reason; gRPC itself refuses larger ones, without one."""
_LEAST_PENDING = 3_000
"""The least number of calls that may have arrived and not begun; it is the default of gRPC's hard limit."""
HANDSHAKE_SECONDS = 10.0
"""How long a peer may take to make a connection: TLS, and the beginning of HTTP/2. By default it has two minutes, and a file descriptor."""


CONNECTION_SECONDS, LAST_SECONDS = 600.0, 30.0
"""How long a connection of a client with a certificate is open, and how long its calls may take then: the client connects again, and its
certificate is checked against the authorities that are trusted by then."""


class Listening:
    """One gRPC server. It belongs to the event loop that creates it."""

    def __init__(self, limits: Limits, *, mutual_tls: bool = False) -> None:
        """Creates the server; it does not listen before ``bind``.

        Args:
            limits: bound the size of messages and the number of calls.
            mutual_tls: whether clients have certificates.
        """
        self.server = _grpc_server(limits, mutual_tls=mutual_tls)
        """The gRPC server, to which handlers are added."""
        self._bound = False
        self._begun = False

    def bind(self, address: Address, credentials: grpc.ServerCredentials | None = None) -> Address:
        """Binds an address, with TLS if there are credentials. Returns the address, with the port that the system chose.

        Raises:
            OSError: the server can't listen on the address.
        """
        try:
            if credentials is None:
                port = self.server.add_insecure_port(str(address))
            else:
                port = self.server.add_secure_port(str(address), credentials)
        except RuntimeError as error:  # gRPC gives the reason only in a log line of its own
            raise OSError(f"{address} can't be listened on") from error
        self._bound = True
        return address if address.path else address._replace(port=port)

    async def start(self) -> None:
        """Begins to accept calls."""
        self._begun = True
        await self.server.start()

    async def close(self) -> None:
        """Gives back the address, and ends calls that are left at once."""
        if self._bound and not self._begun:
            await self.start()
        await self.server.stop(None)


def _grpc_server(limits: Limits, *, mutual_tls: bool) -> grpc.aio.Server:
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
            ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_SECONDS * 1000)),
            ("grpc.keepalive_time_ms", int(limits.keepalive_seconds * 1000)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5000),
            *(lasting if mutual_tls else []),
        ],
        maximum_concurrent_rpcs=2 * limits.max_concurrent_calls,  # calls beyond our limit still begin, to be refused with a reason
    )


def keep_quiet() -> None:
    """Keeps gRPC's server from logging that a peer has gone while its answer was sent, with a traceback, for the whole process.

    Any caller with a short deadline could cause that as often as it likes.
    """
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_worth_a_line)


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], grpc.aio.InternalError)
