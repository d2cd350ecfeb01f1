"""The end of a log: every event gets its outcome, and every connection is closed, even if one of them fails to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from contextlib import suppress

from ...core.policies.events import Event
from ..change_log import LogError, LogSink

_log = logging.getLogger(__name__)


def fail(sink: LogSink, left: Iterable[tuple[Event, bool]], error: LogError) -> None:
    """Reports events that are left without an outcome as failed; each comes with whether it may be in the log all the same."""
    for event, sent in left:
        try:
            sink.append_failed(event, LogError(error.state or error.reason, error.message, kind=error.kind, outcome_unknown=sent))
        except Exception:  # noqa: BLE001 (the log ends all the same, and the others are told)
            _log.exception("the outcome of an event of %s could not be reported", event.key.topic)


async def close_all(namespace: str, closing: Iterable[Awaitable[None]], seconds: float) -> None:
    """Closes the connections of a namespace's log, in ``seconds`` at most: brokers close what belongs to a connection that ends."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for error in await asyncio.gather(*closing, return_exceptions=True):
                if error is not None:
                    _log.error("a connection of the change log of %s could not be closed", namespace, exc_info=error)
