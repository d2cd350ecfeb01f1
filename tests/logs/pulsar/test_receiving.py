"""Taking messages from pulsar-client: all of them, in order, although the library leaves some behind and lets others overtake."""

from __future__ import annotations

import asyncio

from tests.logs.pulsar.fakes import FakeReader, a_message
from tests.logs.samples import a_key, an_update
from topicpolicies_server.logs.pulsar.reader import Receiver

KEY = a_key("public/default")


async def taken(receiver: Receiver, count: int) -> list[int]:
    """Takes messages until ``count`` were returned; returns their entries."""
    entries: list[int] = []
    async with asyncio.timeout(20):
        while len(entries) < count:
            if batch := receiver.take():
                entries += [place.entry for place, _ in batch]
            else:
                await receiver.wait(0.01)
    return entries


async def test_queued_messages_are_taken_at_once_in_batches() -> None:
    handle = FakeReader(*[a_message(n, an_update(KEY, n)) for n in range(64)])
    receiver = Receiver(handle)
    assert [place.entry for place, _ in receiver.take()] == list(range(32))
    assert [place.entry for place, _ in receiver.take()] == list(range(32, 64))
    assert receiver.take() == []
    assert not await receiver.wait(0.01)


async def test_a_message_left_in_the_librarys_queue_is_found_although_none_comes_after_it() -> None:
    handle = FakeReader()
    receiver = Receiver(handle)
    assert receiver.take() == []  # begins to wait
    handle.misses = 1
    handle.feed(a_message(0, an_update(KEY)))
    assert await taken(receiver, 1) == [0]
    handle.feed(a_message(1, an_update(KEY)))
    assert await taken(receiver, 1) == [1], "the earlier wait continues"


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
