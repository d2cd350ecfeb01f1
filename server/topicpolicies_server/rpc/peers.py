"""Keeps gRPC's server from logging that a peer has gone while its answer was sent.

gRPC itself sends the answer of a unary call, and the status of every call. If that fails, it logs an error with a traceback, which any
caller with a short deadline could cause as often as it likes.
"""

from __future__ import annotations

import logging

import grpc

_GRPCS = "grpc._cython.cygrpc"
"""The logger of gRPC's server."""


def keep_quiet() -> None:
    """Suppresses those errors in the log, for the whole process."""
    logging.getLogger(_GRPCS).addFilter(_is_told)


def _is_told(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], grpc.aio.InternalError)
