"""The boundary to pulsar-client, a C++ library.

- ``library``: the client, its readers and its producers
- ``security``: authentication and TLS of its connections
- ``inbox``: hands results from the library's threads to the event loop
- ``refusals``: what the library's result codes mean for a change log
- ``log_lines``: forwards the library's log to Python's
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
