"""Taking messages from pulsar-client: all of them, in order, although the library leaves some behind and lets others overtake."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.logs.pulsar.fakes import FakeReader, a_message
from tests.logs.samples import a_key, an_update
from topicpolicies_server.logs.pulsar.reading.receiving import Receiver

KEY = a_key("public/default")


async def taken(receiver: Receiver, count: int) -> list[int]:
    """Takes messages until ``count`` were returned; returns their entries."""
    entries: list[int] = []
    async with asyncio.timeout(20):
        while len(entries) < count:
            if batch := receiver.take():
                entries += [place.entry for place, _ in batch]
            else:
                await receiver.wait()
    return entries


async def test_queued_messages_are_taken_at_once_in_batches() -> None:
    handle = FakeReader(*[a_message(n, an_update(KEY, n)) for n in range(100)])
    receiver = Receiver(handle)
    assert [place.entry for place, _ in receiver.take()] == list(range(64))
    assert [place.entry for place, _ in receiver.take()] == list(range(64, 100))
    assert receiver.take() == []
    assert not await receiver.wait(0.01)


async def test_a_message_left_in_the_librarys_queue_is_found_although_none_comes_after_it() -> None:
    handle = FakeReader()
    receiver = Receiver(handle)
    assert receiver.take() == []  # begins to wait
    handle.misses = 1
    handle.feed(a_message(0, an_update(KEY)))
    assert await taken(receiver, 1) == [0]
    assert (receiver.left_behind, receiver.overtaken) == (1, 0)
    handle.feed(a_message(1, an_update(KEY)))
    assert await taken(receiver, 1) == [1], "the earlier wait continues"
    assert receiver.left_behind == 1


async def test_an_overtaken_message_is_taken_before_the_one_that_overtook_it() -> None:
    handle = FakeReader()
    receiver = Receiver(handle)
    assert receiver.take() == []
    handle.misses = 1
    for n in range(3):
        handle.feed(a_message(n, an_update(KEY, n)))
    await asyncio.sleep(0.002)  # before the receiver looks
    assert await taken(receiver, 3) == [0, 1, 2]
    assert receiver.overtaken == 1


@pytest.mark.parametrize("before", [0, 3])
async def test_messages_found_in_the_queue_are_held_back_for_one_that_another_thread_is_handing_over(before: int) -> None:
    handle = FakeReader(*[a_message(n, an_update(KEY, n)) for n in range(before)])
    receiver = Receiver(handle)
    assert len(receiver.take()) == before
    handle.on_its_way_seconds = 0.2
    for n in range(before, before + 3):
        handle.feed(a_message(n, an_update(KEY, n)))
    assert await taken(receiver, 3) == [before, before + 1, before + 2]
    assert receiver.left_behind == 0


async def test_a_message_in_the_queue_after_a_gap_is_taken_if_no_other_comes() -> None:
    handle = FakeReader(a_message(0, an_update(KEY)))
    receiver = Receiver(handle)
    assert len(receiver.take()) == 1
    handle.misses = 1
    handle.feed(a_message(7, an_update(KEY)))
    assert await receiver.wait(0.1), "the message that is held back must be announced"
    assert await taken(receiver, 1) == [7]
    assert receiver.left_behind == 1


async def test_a_batch_never_ends_between_an_overtaken_message_and_the_one_that_overtook_it() -> None:
    handle = FakeReader()
    receiver = Receiver(handle)
    entries: list[int] = []
    for n in range(0, 400, 2):
        if not receiver.take():
            handle.misses = 1
        handle.feed(a_message(n, an_update(KEY, n)))
        handle.feed(a_message(n + 1, an_update(KEY, n)))
        async with asyncio.timeout(20):
            while not receiver.has_some:  # noqa: ASYNC110 - the receiver must not look meanwhile
                await asyncio.sleep(0)
        while batch := receiver.take():
            entries += [place.entry for place, _ in batch]
    assert entries == list(range(400))
    assert receiver.overtaken > 100


async def test_messages_repeated_after_a_reconnection_do_not_count_as_overtaken() -> None:
    handle = FakeReader(*[a_message(n, an_update(KEY, n)) for n in (0, 1, 2, 1, 2, 3)])
    receiver = Receiver(handle)
    assert [place.entry for place, _ in receiver.take()] == [0, 1, 2, 3]
    assert receiver.overtaken == 0


@pytest.mark.parametrize("seed", range(20))
async def test_every_message_is_taken_once_and_in_order_however_many_the_library_leaves_behind(seed: int) -> None:
    chance = random.Random(seed)
    handle = FakeReader()
    receiver = Receiver(handle)
    entries: list[int] = []

    async def take() -> None:
        while len(entries) < 300:
            if batch := receiver.take():
                entries.extend(place.entry for place, _ in batch)
            else:
                await receiver.wait()

    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        tasks.create_task(take())
        for n in range(300):
            if chance.random() < 0.3:
                handle.misses = 1
            handle.feed(a_message(n, an_update(KEY, n)))
            if chance.random() < 0.5:
                await asyncio.sleep(chance.choice([0, 0, 0.001, 0.008]))
    assert entries == list(range(300))
    assert receiver.overtaken + receiver.left_behind > 0, "the test needs messages that are left behind or overtaken"
