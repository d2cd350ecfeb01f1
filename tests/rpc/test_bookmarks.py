"""When bookmarks are due: each stream at its own time, by one timer for all."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest

from topicpolicies_server.rpc.watching.bookmarks import SLOT_SECONDS, Bookmarks


class Loop:
    """A loop whose clock is set by hand, and rounds as clocks do."""

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
        """Time passes; timers are called so many seconds early, as clocks of coarse ticks have it."""
        for _ in range(10_000):
            due = min((timer for timer in self.timers if timer[0] <= moment), default=None, key=lambda timer: timer[0])
            if due is None:
                self.now = moment
                return
            self.timers.remove(due)
            self.now = max(self.now, due[0] - early)
            due[1]()
        raise AssertionError("time does not pass")


def test_each_is_called_once_at_its_own_time_and_whoever_has_gone_is_not_called() -> None:
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


def test_a_timer_that_comes_too_early_stops_no_time() -> None:
    loop, called = Loop(), []
    bookmarks = Bookmarks(loop)  # type: ignore[arg-type]
    for tenths in range(1, 30):
        bookmarks.schedule(lambda: called.append(loop.now), tenths / 10)
        bookmarks.schedule(lambda: called.append(loop.now), tenths / 10)
    loop.pass_to(loop.now + 4, early=1e-4)
    assert len(called) == 58


def test_thousands_of_streams_have_one_timer() -> None:
    loop = Loop()
    bookmarks = Bookmarks(loop)  # type: ignore[arg-type]
    dues = [functools.partial(print, number) for number in range(5_000)]
    for due in dues:
        bookmarks.schedule(due, 10.0)
    assert len(loop.timers) == 1 == loop.made


async def test_a_sooner_one_is_not_made_to_wait_for_a_later_one() -> None:
    bookmarks, sooner, later = Bookmarks(asyncio.get_running_loop()), asyncio.Event(), asyncio.Event()
    bookmarks.schedule(later.set, 60.0)
    bookmarks.schedule(sooner.set, 0.1)
    async with asyncio.timeout(20):
        await sooner.wait()
    assert not later.is_set()


def test_a_stream_that_fails_as_it_is_told_keeps_no_other_from_its_bookmarks(caplog: pytest.LogCaptureFixture) -> None:
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
