"""What compaction has erased for readers and still stands in the ledgers: the newest entries before its end, as they were.

Compaction leaves the newest event of each key, and takes away what tells whether that one was stale. But it writes a ledger of its own; the
topic's ledgers stay until they are full, or some hours old, and are trimmed. So whoever starts reads the last of them uncompacted, and
knows what somebody knows who was there (``core/joining``).

All of these entries are had, or none: a history with a hole in it is worse than one that begins late.
"""

from __future__ import annotations

import asyncio
import logging
import uuid

from ..change_log import LogError
from .access import Access
from .client import PulsarClientError, close_handle, close_quietly
from .ids import MessageId
from .receiving import Received, Receiver
from .topics import Stretch

_log = logging.getLogger(__name__)

_QUIET_SECONDS = 2.0
"""For so long nothing may come."""


async def recall(access: Access, namespace: str, topic: str, full_name: str, horizon: MessageId) -> list[Received]:
    """The newest entries up to the end of the last compaction, in order; none if they can't be had without a hole.

    Args:
        access: the ways to the brokers.
        namespace: ``tenant/namespace``.
        topic: the local name of one of the log's topics.
        full_name: the same, as clients name it.
        horizon: the last entry that was compacted.
    """
    if not access.limits.recalled:
        return []
    try:
        stretch = await access.topics.uncompacted(namespace, topic, horizon, access.limits.recalled)
        if stretch.entries == 0:
            return []
        name = f"topicpolicies-recall-{uuid.uuid4().hex}"
        handle = await access.client.create_reader(full_name, name, queue_size=access.limits.received, first=stretch.first)
        try:
            entries = await _read(Receiver(handle), stretch)
        except BaseException:
            close_quietly(handle)
            raise
        await close_handle(handle)
    except (LogError, PulsarClientError) as error:
        _log.info("%s: what was compacted away can't be recalled: %s", full_name, error)
        return []
    if len(entries) != stretch.entries:
        _log.info("%s: of %d entries that were compacted away %d can be recalled, so none is", full_name, stretch.entries, len(entries))
        return []
    return entries


async def _read(receiver: Receiver, stretch: Stretch) -> list[Received]:
    entries: list[Received] = []
    while len(entries) < stretch.entries:
        batch = receiver.take()
        if not batch and not await receiver.wait(_QUIET_SECONDS):
            break
        for received in batch:
            if received[0] > stretch.last:
                return entries
            entries.append(received)
        await asyncio.sleep(0)
    return entries
