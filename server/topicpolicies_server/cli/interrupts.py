"""Ctrl-C and SIGTERM: commands end alike by both, what must not be cut in two is not, and only the exit code tells which it was."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

_Code: TypeAlias = str | int | None
INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, as shells have it."""
TERMINATED = 143
"""The same of SIGTERM."""
_WIND_UP_SECONDS = 2.0
"""How long a command may take to end in order."""
_ENDING = (signal.SIGINT, signal.SIGTERM)
_heard: set[int] = set()
"""The signals that were handled here."""


def _interrupt(number: int, _frame: object) -> None:
    _heard.add(number)
    raise KeyboardInterrupt


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends the body as Ctrl-C does, and not without a word."""
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
    """The exit code of a command; that of one that was interrupted tells by what."""
    return TERMINATED if code == INTERRUPTED and signal.SIGTERM in _heard else code


@contextmanager
def _heard_by(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Both signals have this handler meanwhile; but those that are ignored, or that another one handles."""
    usual = {}
    if threading.current_thread() is threading.main_thread():
        present = {number: signal.getsignal(number) for number in _ENDING}
        usual = {number: each for number, each in present.items() if each in (signal.default_int_handler, _interrupt)}
    for number in usual:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, each in usual.items():
            signal.signal(number, each)


@contextmanager
def _heeding(first: Callable[[], object]) -> Iterator[Callable[[], bool]]:
    """The first interrupt of the body only does something; a second one, for a body that is stuck, ends it.

    It is given what tells whether there was one.

    Raises:
        KeyboardInterrupt: there was a second one.
    """
    asked = False

    def hear(number: int, _frame: object) -> None:
        nonlocal asked
        _heard.add(number)
        if asked:
            raise KeyboardInterrupt
        asked = True
        first()

    with _heard_by(hear):
        yield lambda: asked


@contextmanager
def whole() -> Iterator[None]:
    """An interrupt waits until the body is done; a second one, for a body that is stuck, does not.

    Raises:
        KeyboardInterrupt: there was one.
    """
    with _heeding(lambda: None) as asked:
        yield
    if asked():
        raise KeyboardInterrupt


@contextmanager
def winding_up() -> Iterator[Callable[[], bool]]:
    """An interrupt asks the body to end in order; it is given what tells whether there was one.

    Raises:
        KeyboardInterrupt: it was interrupted again, or took too long.
    """

    def limit() -> None:
        signal.signal(signal.SIGALRM, _too_long)
        signal.setitimer(signal.ITIMER_REAL, _WIND_UP_SECONDS)

    asked: Callable[[], bool] = lambda: False  # noqa: E731 (until there is one that tells)
    try:
        with _heeding(limit) as asked:
            yield asked
    finally:
        if asked():
            signal.setitimer(signal.ITIMER_REAL, 0)


def _too_long(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
