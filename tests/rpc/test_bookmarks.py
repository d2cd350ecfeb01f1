"""The schedule of bookmarks: each stream has its own time, and all share one timer."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest

from topicpolicies_server.rpc.watching.bookmarks import SLOT_SECONDS, Bookmarks


class Loop:
    """A fake event loop whose clock a test sets; it begins at a time that floats round."""

    def __init__(self) -> None:
        self.now = 1_000_000.1
        self.timers: list[tuple[float, Any]] = []
        self.made = 0

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: Any) -> Any:
        timer = (at, call)
        self.timers.append(timer)
        self.made += 1

        class Handle:
            def cancel(_self) -> None:  # noqa: N805
                if timer in self.timers:
                    self.timers.remove(timer)

        return Handle()

    def pass_to(self, moment: float, *, early: float = 0.0) -> None:
        """Advances the clock, and calls timers so many seconds early, as loops with coarse clocks do."""
        for _ in range(10_000):
            due = min((timer for timer in self.timers if timer[0] <= moment), default=None, key=lambda timer: timer[0])
            if due is None:
                self.now = moment
                return
            self.timers.remove(due)
            self.now = max(self.now, due[0] - early)
            due[1]()
        raise AssertionError("time does not pass")


def test_each_bookmark_is_called_once_at_its_own_time_and_cancelled_ones_are_not_called() -> None:
    loop, called = Loop(), []
    bookmarks = Bookmarks(loop)  # type: ignore[arg-type]
    begin = loop.now
    dues = [functools.partial(lambda number: called.append((number, loop.now - begin)), number) for number in range(100)]
    slots = [bookmarks.schedule(due, 1 + number % 10) for number, due in enumerate(dues)]
    for number in range(0, 100, 2):
        bookmarks.cancel(dues[number], slots[number])
    assert len(bookmarks) == 50
    loop.pass_to(begin + 20)
    assert sorted(number for number, _ in called) == list(range(1, 100, 2))
    assert all(1 + number % 10 <= at <= 1 + number % 10 + SLOT_SECONDS + 1e-6 for number, at in called)
    assert len(bookmarks) == 0 and not loop.timers
    bookmarks.cancel(dues[1], slots[1])


def test_timers_that_are_called_too_early_do_not_loop_without_end() -> None:
    loop, called = Loop(), []
    bookmarks = Bookmarks(loop)  # type: ignore[arg-type]
    for tenths in range(1, 30):
        bookmarks.schedule(lambda: called.append(loop.now), tenths / 10)
        bookmarks.schedule(lambda: called.append(loop.now), tenths / 10)
    loop.pass_to(loop.now + 4, early=1e-4)
    assert len(called) == 58


def test_thousands_of_streams_share_one_timer() -> None:
    loop = Loop()
    bookmarks = Bookmarks(loop)  # type: ignore[arg-type]
    dues = [functools.partial(print, number) for number in range(5_000)]
    for due in dues:
        bookmarks.schedule(due, 10.0)
    assert len(loop.timers) == 1 == loop.made


async def test_a_bookmark_scheduled_after_a_later_one_is_still_called_at_its_own_time() -> None:
    bookmarks, sooner, later = Bookmarks(asyncio.get_running_loop()), asyncio.Event(), asyncio.Event()
    bookmarks.schedule(later.set, 60.0)
    bookmarks.schedule(sooner.set, 0.1)
    async with asyncio.timeout(20):
        await sooner.wait()
    assert not later.is_set()


def test_a_stream_whose_bookmark_fails_does_not_prevent_those_of_others_and_the_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop()
    called: list[int] = []
    bookmarks = Bookmarks(loop)  # type: ignore[arg-type]

    def fails() -> None:
        raise RuntimeError("planted")

    dues: list[Callable[[], None]] = [fails, *(functools.partial(called.append, number) for number in range(3))]
    for due, seconds in zip(dues, (1, 1, 1, 2), strict=True):
        bookmarks.schedule(due, seconds)
    loop.pass_to(loop.now + 5)
    assert called == [0, 1, 2] and "planted" in caplog.text
