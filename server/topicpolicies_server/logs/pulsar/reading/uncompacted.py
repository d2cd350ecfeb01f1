"""What compaction has erased for readers and still stands in the ledgers, as it was.

Compaction leaves the newest event of each key, and takes away what tells whether that one was stale. But it writes a ledger of its own; the
topic's ledgers stay until they are full, or some hours old, and are trimmed. So whoever starts reads the last of them uncompacted, and
knows what somebody knows who was there (``core/fold/joining``). And whoever is overtaken by a compaction reads what it erased there.

Of a stretch all entries are had, or none: a history with a hole in it is worse than one that begins late. What was erased while a log is
read may be much, so it is had in stretches that follow each other, each of which is whole.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import Awaitable, Callable

from ...change_log import LogError
from ..access import Access
from ..admin.topics import Stretch
from ..client import PulsarClientError, close_quietly
from ..ids import NOWHERE, MessageId
from .receiving import Received, Receiver

_log = logging.getLogger(__name__)

_AT_ONCE = 5_000
"""So many of the entries between two are held in memory."""
_QUIET_SECONDS = 2.0
"""For so long nothing may come."""
_LONGEST_SECONDS = 30.0
"""For so long reading is held up at the most."""


class Uncompacted:
    """Reads entries of one partition as they were."""

    def __init__(self, access: Access, namespace: str, topic: str, full_name: str) -> None:
        """Asks nothing yet.

        Args:
            access: the ways to the brokers.
            namespace: ``tenant/namespace``.
            topic: the local name of one of the log's topics.
            full_name: the same, as clients name it.
        """
        self._access = access
        self._namespace = namespace
        self._topic = topic
        self._full_name = full_name

    async def upto(self, horizon: MessageId) -> list[Received]:
        """The newest entries up to one, in order; none if they can't be had without a hole, or in time."""
        most = self._access.limits.recalled
        asked = functools.partial(self._access.topics.uncompacted, self._namespace, self._topic, horizon, most)
        return await self._recalled(asked, most) or []

    async def between(self, after: MessageId, before: MessageId) -> list[Received] | None:
        """The first entries between two, in order: all, or as many as are held at once.

        None if there may be some that can't be had, or not in time, or if nothing is to be recalled at all.
        """
        asked = functools.partial(self._access.topics.between, self._namespace, self._topic, after, before, _AT_ONCE)
        return await self._recalled(asked, _AT_ONCE if self._access.limits.recalled else 0)

    async def _recalled(self, asked: Callable[[], Awaitable[Stretch | None]], most: int) -> list[Received] | None:
        """The entries of a stretch that the broker is asked for; None if they can't be had: whatever goes wrong, it is read without."""
        if not most:
            return None
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                stretch = await asked()
                if stretch is None or stretch.entries > most:
                    return None
                entries = await self._read(stretch) if stretch.entries else []
        except TimeoutError:
            _log.info("%s: what was compacted away can't be recalled within %g s", self._full_name, _LONGEST_SECONDS)
        except (LogError, PulsarClientError) as error:
            _log.info("%s: what was compacted away can't be recalled: %s", self._full_name, error)
        except Exception:  # noqa: BLE001 (whatever it is, the log can be read without)
            _log.exception("%s: what was compacted away can't be recalled", self._full_name)
        else:
            # Of a batch nobody can tell where it ends.
            if len(entries) == stretch.entries and all(place.batch_index < 0 for place, _ in entries):
                return entries
            what = (self._full_name, stretch.entries, len(entries))
            _log.info("%s: of %d entries that were compacted away %d can be recalled, so none is", *what)
        return None

    async def _read(self, stretch: Stretch) -> list[Received]:
        access, name = self._access, f"topicpolicies-recall-{uuid.uuid4().hex}"
        handle = await access.client.create_reader(self._full_name, name, queue_size=access.limits.received, first=stretch.first)
        try:
            return await _received(Receiver(handle), stretch)
        finally:
            close_quietly(handle)  # which may take long, and nobody waits for it


async def _received(receiver: Receiver, stretch: Stretch) -> list[Received]:
    entries: list[Received] = []
    newest = NOWHERE
    while len(entries) < stretch.entries:
        batch = receiver.take()
        if not batch and not await receiver.wait(_QUIET_SECONDS):
            break
        for received in batch:
            if received[0] > stretch.last:
                return entries
            if received[0] >= stretch.first and received[0] > newest:  # a restored connection brings some a second time
                entries.append(received)
                newest = received[0]
        await asyncio.sleep(0)
    return entries
