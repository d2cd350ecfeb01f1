"""SIGTERM ends a run of tests as Ctrl-C does: what fixtures have made is taken down, and what tests have started does not outlive them."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

import pytest


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _go_on(_number: int, _frame: FrameType | None) -> None:
    pass


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Is asked in every process, before it runs any test."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)


@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt() -> None:
    """What is taken down is not interrupted once more; who can't wait has SIGKILL."""
    if signal.getsignal(signal.SIGTERM) is _interrupt:
        signal.signal(signal.SIGTERM, _go_on)
