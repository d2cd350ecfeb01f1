"""Answers are cached, bounded and shared; each caller that shares a request gets its outcome, and is cancelled only by itself."""

from __future__ import annotations

import asyncio

import pytest

from topicpolicies_server.cluster.cache import Cache
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason


class Asked:
    """Answers each key with the key itself, once the test sets ``answering``."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        self.answering = asyncio.Event()
        self.behind: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """A future that requests for "behind" await; the test can cancel it."""

    async def __call__(self, key: str) -> str:
        self.questions.append(key)
        await self.answering.wait()
        if key == "behind":
            await self.behind
        return key


@pytest.fixture
async def asked() -> Asked:
    return Asked()


@pytest.fixture
async def cache(asked: Asked) -> Cache[str, str]:
    return Cache(asked, fresh_seconds=10.0, most=3, now=lambda: 0.0)


async def turns_of_the_loop() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def outcome(waiter: asyncio.Task[str]) -> BaseException | str:
    """Returns what a caller got: the answer or the error; ``CancelledError`` if it was cancelled."""
    (had,) = await asyncio.gather(waiter, return_exceptions=True)
    return had


async def test_a_caller_that_shares_the_request_of_a_cancelled_caller_gets_the_answer(cache: Cache[str, str], asked: Asked) -> None:
    first, second = (asyncio.create_task(cache.get("one")) for _ in range(2))
    await turns_of_the_loop()
    first.cancel()
    await turns_of_the_loop()
    asked.answering.set()
    assert isinstance(await outcome(first), asyncio.CancelledError)
    assert await outcome(second) == "one"
    assert asked.questions == ["one"]


async def test_a_caller_that_waits_when_the_cache_is_closed_gets_an_error_and_is_not_cancelled(cache: Cache[str, str]) -> None:
    waiter = asyncio.create_task(cache.get("one"))
    await turns_of_the_loop()
    await cache.close()
    had = await outcome(waiter)
    assert isinstance(had, PolicyError) and (had.kind, had.reason) == (Kind.UNAVAILABLE, Reason.SHUTTING_DOWN)


async def test_a_closed_cache_sends_no_requests_and_answers_only_from_what_it_has(asked: Asked, caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    cache: Cache[str, str] = Cache(asked, fresh_seconds=10.0, most=3, now=lambda: now)
    asked.answering.set()
    assert await cache.get("one") == "one"
    await cache.close()
    now = 9.0
    assert cache.peek("one") == "one"
    now = 11.0
    assert cache.peek("one") is None
    assert await cache.get("one", stale=True) == "one"
    for key in ("one", "two"):
        with pytest.raises(PolicyError, match="stopping") as error:
            await cache.get(key)
        assert error.value.reason == Reason.SHUTTING_DOWN
    await turns_of_the_loop()
    assert asked.questions == ["one"] and caplog.records == []


async def test_a_request_continues_without_callers(asked: Asked) -> None:
    cache: Cache[str, str] = Cache(asked, fresh_seconds=10.0, most=3, now=lambda: 0.0)
    waiter = asyncio.create_task(cache.get("one"))
    await turns_of_the_loop()
    waiter.cancel()
    assert isinstance(await outcome(waiter), asyncio.CancelledError)
    asked.answering.set()
    await turns_of_the_loop()
    assert cache.peek("one") == "one"


@pytest.mark.parametrize("stale", [False, True])
async def test_a_refresh_is_sent_although_no_caller_waits_for_it(asked: Asked, stale: bool) -> None:
    now = 0.0
    cache: Cache[str, str] = Cache(asked, fresh_seconds=10.0, most=3, now=lambda: now)
    asked.answering.set()
    assert await cache.get("one") == "one"
    asked.answering.clear()
    before = asyncio.create_task(cache.get("before"))
    await turns_of_the_loop()
    now = 11.0 if stale else 6.0
    assert await cache.get("one", stale=stale) == "one"
    if stale:
        waiter = asyncio.create_task(cache.get("one"))
        await turns_of_the_loop()
        waiter.cancel()
    await turns_of_the_loop()
    asked.answering.set()
    assert await before == "before"
    await turns_of_the_loop()
    assert asked.questions == ["one", "before", "one"]


async def test_the_oldest_answers_are_evicted_and_an_answer_that_is_replaced_is_the_newest(asked: Asked) -> None:
    now = 0.0
    cache: Cache[str, str] = Cache(asked, fresh_seconds=1.0, most=3, now=lambda: now)
    asked.answering.set()
    for key in ("one", "two", "three", "one", "four"):
        now += 2.0
        await cache.get(key)
    assert list(cache._answers) == ["three", "one", "four"]
