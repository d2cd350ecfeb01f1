"""Reads entries that compaction erased for readers and that still stand in the ledgers.

Compaction leaves the newest event of each key, and removes the events that show whether that one was stale. But it writes a ledger of its
own; the topic's ledgers stay until they are full, or some hours old, and are trimmed. So a reader that starts reads the last of those
entries uncompacted, and knows what a reader knows that was there all the time (``core/fold/joining``). And a reader that is overtaken by a
compaction reads what it erased from there.

Of the entries before the opening's horizon, either all that are requested can be had, or none is used: a history with a hole is worse than
one that begins late, and an opening waits for them only for a short time. The entries that a compaction erases while a log is read can be
many, and without them everything has to be read anew. So those are read in pieces that follow each other, and requested again if they do
not come:

================================================  ==============================================================
result for a stretch of entries                   meaning
================================================  ==============================================================
messages from its beginning on, however many      they can be used; the rest is another stretch
only markers between two of its messages          no hole: markers are the brokers' own
a message, but not the first one                  the first one is not handed over: the stretch can't be had
messages of a batch                               they can't be had: it is unknown where a batch ends
nothing, for a while                              not known: ``LogError``, and the request is repeated
the ledger that it begins in was trimmed          it can't be had
================================================  ==============================================================
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence

from ....core.reasons import LogState
from ...change_log import LogError
from ..access import Access
from ..admin.topics import EntryRange
from ..client import PulsarClientError, close_quietly, refusal
from ..ids import NOWHERE, MessageId
from .receiving import Received, Receiver

_log = logging.getLogger(__name__)

_AT_ONCE = 5_000
"""How many entries of a stretch are held in memory at most."""
_QUIET_SECONDS = 2.0
"""How long nothing may come before the reading of a stretch ends."""
_LONGEST_SECONDS = 30.0
"""How long one request may hold up reading."""


class Uncompacted:
    """Reads entries of one partition as they were before compaction."""

    def __init__(self, access: Access, namespace: str, topic: str, full_name: str) -> None:
        """Connects to nothing yet.

        Args:
            access: the clients for the brokers.
            namespace: ``tenant/namespace``.
            topic: the local name of one of the log's topics.
            full_name: the full name of that topic, as clients use it.
        """
        self._access = access
        self._namespace = namespace
        self._topic = topic
        self._full_name = full_name

    async def upto(self, horizon: MessageId) -> list[Received]:
        """Returns the newest entries up to the horizon, in order; none if they can't be had without a hole and in time."""
        most = self._access.limits.recalled
        if not most:
            return []
        came = _Arrivals()
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                stretch = await self._access.topics.uncompacted(self._namespace, self._topic, horizon, most)
                await self._read(stretch, came)
        except TimeoutError:
            _log.info("%s: what was compacted away can't be recalled within %g s", self._full_name, _LONGEST_SECONDS)
        except (LogError, PulsarClientError) as error:
            _log.info("%s: what was compacted away can't be recalled: %s", self._full_name, error)
        except Exception:  # noqa: BLE001 (whatever it is, the log can be read without)
            _log.exception("%s: what was compacted away can't be recalled", self._full_name)
        else:
            if len(came.entries) == stretch.entries and not any(_is_of_batch(place) for place, _ in came.entries):
                return came.entries
            what = (self._full_name, stretch.entries, len(came.entries))
            _log.info("%s: of %d entries that were compacted away only %d can be recalled, so none is used", *what)
        return []

    async def between(self, after: MessageId, before: MessageId) -> list[Received] | None:
        """Returns the first entries between two places, in order and without a hole: those that came, as many as fit in memory at once.

        Returns:
            None if there may be entries that can't be had, or if recalling is switched off; an empty list if there are no entries.

        Raises:
            LogError: nothing came, or the broker gave no answer.
        """
        topics, names = self._access.topics, (self._namespace, self._topic)
        stretch = await topics.between(*names, after, before, _AT_ONCE) if self._access.limits.recalled else None
        if stretch is None:
            return None
        came = _Arrivals()
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                await self._read(stretch, came)
        except TimeoutError:
            _log.info("%s: %d of %d entries arrived within %g s", self._full_name, len(came.entries), stretch.entries, _LONGEST_SECONDS)
        except PulsarClientError as error:
            raise refusal(f"Recalling what was compacted away in {self._full_name}", error.result, error.message) from error
        found = await self._without_hole(after, came.entries)
        if found or not stretch.entries:
            return found
        if came.entries or came.further:
            return None if came.entries or await topics.first_message_between(*names, after, before) else []
        place = f"{stretch.first.ledger}:{stretch.first.entry}"
        raise LogError(LogState.NOT_SERVED, f"The entries of {self._full_name} from {place} on are not sent at the moment.")

    async def _without_hole(self, after: MessageId, entries: Sequence[Received]) -> list[Received]:
        """Returns the first of some entries after a place, as many as follow each other with no message missing between them."""
        whole: list[Received] = []
        for received in entries:
            place = received[0]
            directly = place.ledger == after.ledger and place.entry == after.entry + 1
            if _is_of_batch(place) or not (
                directly or await self._access.topics.first_message_between(self._namespace, self._topic, after, place) is None
            ):
                break
            whole.append(received)
            after = place
        return whole

    async def _read(self, stretch: EntryRange, came: _Arrivals) -> None:
        """Reads a stretch until all of it has come, or nothing comes for a while."""
        if not stretch.entries:
            return
        access, name = self._access, f"topicpolicies-recall-{uuid.uuid4().hex}"
        handle = await access.client.create_reader(self._full_name, name, queue_size=access.limits.received, first=stretch.first)
        try:
            receiver = Receiver(handle)
            while len(came.entries) < stretch.entries and not came.further:
                batch = receiver.take()
                if not batch and not await receiver.wait(_QUIET_SECONDS):
                    break
                came.take(batch, stretch)
                await asyncio.sleep(0)
        finally:
            close_quietly(handle)  # this may take long, and nothing depends on it


class _Arrivals:
    """The entries of a stretch that have come.

    Attributes:
        entries: the entries, in order.
        further: whether an entry came that stands after the stretch.
    """

    def __init__(self) -> None:
        self.entries: list[Received] = []
        self.further = False
        self._newest = NOWHERE

    def take(self, batch: Sequence[Received], stretch: EntryRange) -> None:
        """Takes the entries that belong to the stretch, each once: a restored connection brings some twice."""
        for received in batch:
            place = received[0]
            if place > stretch.last:
                self.further = True
                break
            if place >= stretch.first and place > self._newest:
                self.entries.append(received)
                self._newest = place


def _is_of_batch(place: MessageId) -> bool:
    """Whether a message is one of a batch, whose length is unknown."""
    return place.batch_index >= 0
