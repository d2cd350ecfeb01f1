"""Ctrl-C and SIGTERM end commands alike, but for the exit code; commands that must not be cut in two defer them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, by the convention of shells: 128 and the number of the signal."""
TERMINATED = 143
"""The exit code of a command that SIGTERM ended."""
_received: set[int] = set()
"""The signals that were handled here since the command began."""


def _interrupt(number: int, _frame: object) -> None:
    _received.add(number)
    raise KeyboardInterrupt


@contextmanager
def _handling(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Handles SIGINT and SIGTERM in the body. One that is ignored, or has a handler of others, stays so."""
    usual = {}
    if threading.current_thread() is threading.main_thread():
        present = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        usual = {number: each for number, each in present.items() if each in (signal.default_int_handler, signal.SIG_DFL, _interrupt)}
    for number in usual:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, each in usual.items():
            signal.signal(number, each)


@contextmanager
def interruptible() -> Iterator[None]:
    """Lets SIGTERM interrupt the body as Ctrl-C does.

    Raises:
        KeyboardInterrupt: there was an interrupt, whatever exception it has become: in the middle of a lock's code, a RuntimeError.
    """
    _received.clear()
    with _handling(_interrupt):
        try:
            yield
        except Exception as error:
            if _received:
                raise KeyboardInterrupt from error
            raise


def code_of(code: Any) -> Any:
    """Returns the exit code of a command: ``code``, but ``TERMINATED`` for ``INTERRUPTED`` if the signal was SIGTERM."""
    return TERMINATED if code == INTERRUPTED and signal.SIGTERM in _received else code


@contextmanager
def deferring(first: Callable[[], object]) -> Iterator[Callable[[], bool]]:
    """Calls ``first`` in the handler of the first interrupt; the body goes on. A second interrupt ends the body, in case it is stuck.

    Yields a function that returns whether there was an interrupt.

    Raises:
        KeyboardInterrupt: there was a second interrupt.
    """
    asked = False

    def handle(number: int, _frame: object) -> None:
        nonlocal asked
        _received.add(number)
        if asked:
            raise KeyboardInterrupt
        asked = True
        first()

    with _handling(handle):
        yield lambda: asked
