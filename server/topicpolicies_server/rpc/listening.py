"""gRPC's server, and where it listens.

=========  ==========  =========  ===============================================================================
state      event       next       what is done
=========  ==========  =========  ===============================================================================
NEW        bind        BOUND      the system gives it the address: connections are made from now on
BOUND      start       BEGUN      calls are taken
NEW        close       CLOSED     nothing
BOUND      close       CLOSED     it begins and ends: gRPC gives an address back in no other way
BEGUN      close       CLOSED     what is left of it ends at once
=========  ==========  =========  ===============================================================================
"""

from __future__ import annotations

import grpc

from ..config import Address, Limits
from .decoding import RECEIVED_TIMES

_LEAST_PENDING = 3_000
"""Calls that may have arrived and not begun: gRPC's own hard limit."""


class Listening:
    """One server of gRPC's. It belongs to the event loop that makes it."""

    def __init__(self, limits: Limits) -> None:
        """It listens nowhere yet.

        Args:
            limits: how large its messages may be, and how many calls there may be.
        """
        self.server = _grpc_server(limits)
        """What methods are added to."""
        self._bound = False
        self._begun = False

    def bind(self, address: Address, credentials: grpc.ServerCredentials | None = None) -> Address:
        """Takes an address, with TLS if there are credentials. Returns it with the port that the system chose.

        Raises:
            OSError: it can't be listened on.
        """
        try:
            if credentials is None:
                port = self.server.add_insecure_port(str(address))
            else:
                port = self.server.add_secure_port(str(address), credentials)
        except RuntimeError as error:  # gRPC does not say why, but in a line of its own
            raise OSError(f"{address} can't be listened on") from error
        self._bound = True
        return address if address.path else address._replace(port=port)

    async def start(self) -> None:
        """Takes calls."""
        self._begun = True
        await self.server.start()

    async def close(self) -> None:
        """Gives back the address; calls that are left end at once."""
        if self._bound and not self._begun:
            await self.start()
        await self.server.stop(None)


def _grpc_server(limits: Limits) -> grpc.aio.Server:
    pending = max(limits.max_concurrent_calls, _LEAST_PENDING)
    return grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", RECEIVED_TIMES * limits.max_message_bytes),
            # Unless told otherwise, gRPC cancels calls of a burst, without a reason, before this limit is met.
            ("grpc.server.max_pending_requests", pending),
            ("grpc.server.max_pending_requests_hard_limit", pending),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_time_ms", int(limits.keepalive_seconds * 1000)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5000),
        ],
        maximum_concurrent_rpcs=2 * limits.max_concurrent_calls,  # those beyond the limit are told why
    )
