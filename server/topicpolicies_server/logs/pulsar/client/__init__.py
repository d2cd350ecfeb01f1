"""The boundary to pulsar-client, a C++ library.

- ``library``: the client, its readers and producers; nothing outside touches the library
- ``securing``: how its connections show who the sidecar is, and check who brokers are
- ``inbox``: from its threads to the event loop
- ``refusals``: what its result codes mean for a change log
- ``log_lines``: what it logs
"""

from .inbox import Inbox
from .library import (
    EXCLUSIVE,
    OK,
    SHARED,
    WAIT_FOR_EXCLUSIVE,
    PulsarClient,
    PulsarClientError,
    Result,
    close_handle,
    close_quietly,
    message_of,
    next_at_once,
    send,
)
from .refusals import is_passing, refusal

__all__ = [
    "EXCLUSIVE",
    "OK",
    "SHARED",
    "WAIT_FOR_EXCLUSIVE",
    "Inbox",
    "PulsarClient",
    "PulsarClientError",
    "Result",
    "close_handle",
    "close_quietly",
    "is_passing",
    "message_of",
    "next_at_once",
    "refusal",
    "send",
]
