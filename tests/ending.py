"""SIGTERM ends a run of tests as Ctrl-C does: fixtures are torn down, and processes that tests have started are ended."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

import pytest


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _ignore(_number: int, _frame: FrameType | None) -> None:
    pass


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Installs the handler in every process, before its first test."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)


@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt() -> None:
    """Ignores further SIGTERMs, so that the teardown is not interrupted; only SIGKILL ends the process sooner."""
    if signal.getsignal(signal.SIGTERM) is _interrupt:
        signal.signal(signal.SIGTERM, _ignore)
