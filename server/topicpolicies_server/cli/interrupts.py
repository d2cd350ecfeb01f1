"""Ctrl-C and SIGTERM end commands alike, but for the exit code; commands that must not be cut in two defer them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

_Code: TypeAlias = str | int | None
INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, by the convention of shells: 128 and the number of the signal."""
TERMINATED = 143
"""The exit code of a command that SIGTERM ended."""
_heard: set[int] = set()
"""The signals that were handled here since the command began."""


def _interrupt(number: int, _frame: object) -> None:
    _heard.add(number)
    raise KeyboardInterrupt


@contextmanager
def terminable() -> Iterator[None]:
    """Makes SIGTERM raise KeyboardInterrupt in the body, as Ctrl-C does, instead of killing the process."""
    _heard.clear()
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def code_of(code: _Code) -> _Code:
    """Returns the exit code of a command: ``code``, but ``TERMINATED`` for ``INTERRUPTED`` if the signal was SIGTERM."""
    return TERMINATED if code == INTERRUPTED and signal.SIGTERM in _heard else code


@contextmanager
def deferring(first: Callable[[], object]) -> Iterator[Callable[[], bool]]:
    """Calls ``first`` in the handler of the first interrupt; the body goes on. A second interrupt ends the body, in case it is stuck.

    A signal that is ignored, or has a handler of others, stays so. Yields a function that returns whether there was an interrupt.

    Raises:
        KeyboardInterrupt: there was a second interrupt.
    """
    asked = False

    def hear(number: int, _frame: object) -> None:
        nonlocal asked
        _heard.add(number)
        if asked:
            raise KeyboardInterrupt
        asked = True
        first()

    usual = {}
    if threading.current_thread() is threading.main_thread():
        present = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        usual = {number: each for number, each in present.items() if each in (signal.default_int_handler, _interrupt)}
    for number in usual:
        signal.signal(number, hear)
    try:
        yield lambda: asked
    finally:
        for number, each in usual.items():
            signal.signal(number, each)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raises KeyboardInterrupt for each exception that an interrupt has caused: in the middle of a lock's code, one ends as RuntimeError.

    Raises:
        KeyboardInterrupt: there was an interrupt.
    """
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = None if cause.__suppress_context__ else cause.__context__  # suppressed: it was dealt with
        if cause is not None:
            raise KeyboardInterrupt from error
        raise
