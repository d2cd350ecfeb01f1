"""An interrupt ends a command as an interrupt, whatever exception comes of it."""

from __future__ import annotations

import contextlib
import threading

import pytest

from topicpolicies_server.cli.interrupts import interruptible


def test_an_exception_that_an_interrupt_caused_is_an_interrupt() -> None:
    condition = threading.Condition()
    with pytest.raises(KeyboardInterrupt), interruptible(), condition:
        condition.release()  # as in the middle of ``Condition.wait``
        raise KeyboardInterrupt


def test_an_exception_that_replaced_an_interrupt_on_purpose_stays_as_it_is() -> None:
    with pytest.raises(ValueError, match="handled"), interruptible():
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise ValueError("handled") from None


def test_an_exception_without_an_interrupt_stays_as_it_is() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        raise KeyboardInterrupt
    with pytest.raises(ValueError, match="other"), interruptible():
        try:
            raise KeyError
        except KeyError as error:
            raise ValueError("other") from error
