"""An interrupt ends a command as an interrupt, whatever exception comes of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from topicpolicies_server.cli.interrupts import INTERRUPTED, TERMINATED, code_of, interruptible


@pytest.fixture(autouse=True)
def usual_signals() -> Iterator[None]:
    """Gives signals their usual effect: test runs in the background ignore SIGINT, and every test run handles SIGTERM itself."""
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)
    terminated = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, terminated)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)])
def test_an_exception_that_an_interrupt_caused_is_an_interrupt(number: int, code: int) -> None:
    condition = threading.Condition()
    with pytest.raises(KeyboardInterrupt), interruptible(), condition:
        condition.release()  # as in the middle of ``Condition.wait``
        signal.raise_signal(number)
    assert code_of(INTERRUPTED) == code


def test_an_exception_without_an_interrupt_stays_as_it_is() -> None:
    with pytest.raises(ValueError, match="other"), interruptible():
        raise ValueError("other")
