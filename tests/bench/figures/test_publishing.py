"""Bare publishes: at most the given number is in flight, and a failed one fails the measurement."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulsar
import pytest

from bench.figures.publishing import Message, Publisher

MESSAGES = [Message(b"one", "a", {"x": "1"}), Message(b"two", "b", {})]


class _Library:
    """A fake of the library, which acknowledges on other threads and counts unacknowledged messages."""

    def __init__(self, result: Any = pulsar.Result.Ok) -> None:
        self._result = result
        self._threads = ThreadPoolExecutor(4)
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0
        self.sent: list[tuple[bytes, Mapping[str, str], str]] = []

    def create_producer(self, topic: str, **options: Any) -> _Library:
        assert topic.startswith("persistent://public/bench/bare-") and options["batching_enabled"] is False
        return self

    def send_async(self, payload: bytes, done: Callable[[Any, Any], None], *, properties: Mapping[str, str], partition_key: str) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.sent.append((payload, properties, partition_key))
        self._threads.submit(self._acknowledge, done)

    def _acknowledge(self, done: Callable[[Any, Any], None]) -> None:
        with self._lock:
            self._now -= 1
        done(self._result, None)

    def close(self) -> None:
        self._threads.shutdown()


@pytest.mark.parametrize("in_flight", [1, 8, 64])
def test_at_most_the_given_number_of_publishes_is_in_flight(in_flight: int) -> None:
    library = _Library()
    sample = Publisher(library, "public/bench", MESSAGES).publish(in_flight, 0.1)
    library.close()
    assert 1 <= library.most <= in_flight
    assert sample.calls == len(library.sent) > 0 and sample.per_second > 0
    assert library.sent[:2] == [(each.payload, each.properties, each.key) for each in MESSAGES][: len(library.sent)]


def test_a_failed_publish_fails_the_measurement() -> None:
    library = _Library(pulsar.Result.Timeout)
    with pytest.raises(RuntimeError, match="publishes failed"):
        Publisher(library, "public/bench", MESSAGES).publish(4, 0.05)
    library.close()
