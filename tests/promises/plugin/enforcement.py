"""Checks whether a broker enforces a limit: it admits one more producer, or refuses it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pulsar

_SECONDS = 120


def admits_another_producer(client: pulsar.Client, topic: str) -> bool:
    """Whether the broker admits one more producer of a topic, which is closed at once."""
    try:
        client.create_producer(f"persistent://{topic}").close()
    except pulsar.ProducerBusy:
        return False
    return True


def soon(condition: Callable[[], bool], what: str) -> None:
    """Waits until a condition holds.

    Raises:
        AssertionError: it did not hold in time.
    """
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"still not so: {what}"
        time.sleep(0.05)
