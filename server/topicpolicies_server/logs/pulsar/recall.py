"""What compaction has erased for readers and still stands in the ledgers, as it was.

Compaction leaves the newest event of each key, and takes away what tells whether that one was stale. But it writes a ledger of its own; the
topic's ledgers stay until they are full, or some hours old, and are trimmed. So whoever starts reads the last of them uncompacted, and
knows what somebody knows who was there (``core/joining``). And whoever is overtaken by a compaction reads what it erased there.

Of a stretch all entries are had, or none: a history with a hole in it is worse than one that begins late.
"""

from __future__ import annotations

import asyncio
import logging
import uuid

from ..change_log import LogError
from .access import Access
from .client import PulsarClientError, close_quietly
from .ids import MessageId
from .receiving import Received, Receiver
from .topics import Stretch

_log = logging.getLogger(__name__)

_QUIET_SECONDS = 2.0
"""For so long nothing may come."""


class Recall:
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
        """The newest entries up to one, in order; none if they can't be had without a hole."""
        most = self._access.limits.recalled
        try:
            stretch = await self._access.topics.uncompacted(self._namespace, self._topic, horizon, most) if most else None
            return await self._read(stretch) or [] if stretch is not None else []
        except (LogError, PulsarClientError) as error:
            _log.info("%s: what was compacted away can't be recalled: %s", self._full_name, error)
            return []

    async def between(self, after: MessageId, before: MessageId) -> list[Received] | None:
        """The entries between two, in order; None if there may be some that can't be had."""
        try:
            stretch = await self._access.topics.between(self._namespace, self._topic, after, before)
            if stretch is None or stretch.entries > self._access.limits.recalled:
                return None
            return await self._read(stretch)
        except (LogError, PulsarClientError) as error:
            _log.info("%s: what is missing can't be recalled: %s", self._full_name, error)
            return None

    async def _read(self, stretch: Stretch) -> list[Received] | None:
        if stretch.entries == 0:
            return []
        access, name = self._access, f"topicpolicies-recall-{uuid.uuid4().hex}"
        handle = await access.client.create_reader(self._full_name, name, queue_size=access.limits.received, first=stretch.first)
        try:
            entries = await _take(Receiver(handle), stretch)
        finally:
            close_quietly(handle)
        if len(entries) == stretch.entries:
            return entries
        _log.info("%s: of %d entries that were compacted away %d can be read, so none is", self._full_name, stretch.entries, len(entries))
        return None


async def _take(receiver: Receiver, stretch: Stretch) -> list[Received]:
    entries: list[Received] = []
    while len(entries) < stretch.entries:
        batch = receiver.take()
        if not batch and not await receiver.wait(_QUIET_SECONDS):
            break
        for received in batch:
            if received[0] > stretch.last:
                return entries
            if received[0] >= stretch.first:
                entries.append(received)
        await asyncio.sleep(0)
    return entries
