"""What gRPC's server says in the log of a peer that has gone while its answer was sent: nothing.

gRPC sends the answer of a call with one answer, and a status, itself. Where that fails it logs an error with a traceback, which any caller
with a short deadline can cause, as often as it likes.
"""

from __future__ import annotations

import logging

import grpc

_GRPCS = "grpc._cython.cygrpc"
"""The logger of gRPC's server."""


def keep_quiet() -> None:
    """Has gRPC say nothing of peers that have gone, in the whole process."""
    logging.getLogger(_GRPCS).addFilter(_is_told)


def _is_told(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], grpc.aio.InternalError)
