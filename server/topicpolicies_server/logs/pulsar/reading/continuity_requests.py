"""The requests that ``continuity`` needs for one partition: to the broker's admin API, and to the ledgers."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from ....core.reasons import LogState
from ...change_log import LogError
from ..admin.topics import Compaction
from ..ids import NOWHERE, MessageId
from .continuity import UNREADABLE, Continuity, State, Stretch
from .receiving import Received

_log = logging.getLogger(__name__)

_SETTLING_SECONDS = 0.5
_PAUSES = (0.5, 1.0, 2.0, 4.0)
"""Waits in seconds; after each of them, entries that did not come are requested once more."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0
_REFUSED_SECONDS = 30.0
"""How long requests may be refused before reading gives up: a token may have expired, and its replacement may be on its way."""
_T = TypeVar("_T")

Recall: TypeAlias = Callable[[MessageId, MessageId], Awaitable[Sequence[Received] | None]]
"""Reads the first entries between two places as they stand in the ledgers, as many as may be held in memory; empty if there is none.
None: some of them can't be had. Raises ``LogError`` if they can't be had at the moment."""


class ContinuityRequests:
    """Sends the requests of one partition's ``Continuity`` and repeats them until there is an answer."""

    def __init__(
        self,
        compaction: Callable[[], Awaitable[Compaction]],
        skipped: Callable[[MessageId, MessageId], Awaitable[MessageId | None]],
        recall: Recall | None = None,
        replaced: Callable[[], Awaitable[LogError | None]] | None = None,
    ) -> None:
        """All callables but ``recall`` ask the broker, and may raise ``LogError``.

        Args:
            compaction: returns how far the topic is compacted.
            skipped: returns the first message between two entries.
            recall: reads entries from the ledgers; None: that is not possible.
            replaced: returns what is wrong if the log was deleted or replaced by another one (``existence``); None: that is not checked.
        """
        self._compaction = compaction
        self._skipped = skipped
        self._recall = recall
        self._replaced = replaced

    async def advance(self, continuity: Continuity) -> Sequence[Received]:
        """Gets the answer that the current state of ``continuity`` needs, and reports it there.

        Entries are the exception: the caller reports those to ``continuity`` once it has delivered them.

        Returns:
            The entries that have to be delivered; empty if none were requested or none exist.

        Raises:
            LogError: something was missed.
        """
        match continuity.state:
            case State.COMPACTION | State.CONFIRMING:
                continuity.compacted(await _answer(self._compaction))
            case State.SETTLING:
                await asyncio.sleep(_SETTLING_SECONDS)  # the broker reports a compaction's horizon a moment after its ledger
                continuity.compacted(await _answer(self._compaction))
            case State.MESSAGES:
                continuity.messages(await self._messages(continuity.stretch))
            case State.ERASED | State.GAP:
                entries = await self._recalled(continuity.stretch)
                if entries:
                    return entries
                if entries is None:
                    continuity.not_recalled()
                else:
                    continuity.recalled(some=False)
            case State.WHOLE:
                pass
        return ()

    async def still_the_same(self) -> None:
        """Makes sure that the log is still the one that was opened.

        Raises:
            LogError: the log was deleted or replaced.
        """
        if self._replaced is not None and (error := await _answer(self._replaced)) is not None:
            raise error

    async def keep_up(self, continuity: Continuity) -> MessageId:
        """Asks whether the topic was compacted meanwhile, and reports a new compaction to ``continuity``.

        Returns:
            The horizon of a new compaction, ``NOWHERE`` if there is none. Unread events up to that place may never come: of a key that was
                deleted, compaction leaves nothing.

        Raises:
            LogError: the broker gave no answer.
        """
        if not continuity.wants_news:
            return NOWHERE
        compaction = await self._compaction()
        while continuity.is_news(compaction):
            await asyncio.sleep(_SETTLING_SECONDS)
            before, compaction = compaction, await self._compaction()
            if compaction.ledger == before.ledger:
                continuity.learn(compaction)
                return max(compaction.horizon or NOWHERE, NOWHERE)
        return NOWHERE

    async def _recalled(self, stretch: Stretch) -> Sequence[Received] | None:
        """Returns entries as they stand in the ledgers; None if they can't be had.

        A request for entries that do not come is repeated a few times; beyond that, opening the log again is no slower.
        """
        if self._recall is None:
            return None
        pauses = iter(_PAUSES)
        while True:
            try:
                return await self._recall(*stretch)
            except LogError as error:
                pause = next(pauses, None)
                if pause is None:
                    _log.warning("Reading a change log waits no longer: %s", error.message)
                    return None
                _log.info("Reading a change log waits for what a compaction erased while it was read: %s", error.message)
            await asyncio.sleep(pause)

    async def _messages(self, stretch: Stretch) -> list[MessageId]:
        found: list[MessageId] = []
        while len(found) < UNREADABLE:
            after = found[-1] if found else stretch.after
            skipped = await _answer(functools.partial(self._skipped, after, stretch.before))
            if skipped is None:
                break
            found.append(skipped)
        return found


async def _answer(ask: Callable[[], Awaitable[_T]]) -> _T:
    """Returns the broker's answer, without which reading can't go on; repeats the request until there is one.

    Raises:
        LogError: the request was refused for ``_REFUSED_SECONDS`` without a break (``ACCESS_DENIED``).
    """
    pause = _FIRST_PAUSE
    refused_until = math.inf
    while True:
        try:
            return await ask()
        except LogError as error:
            now = time.monotonic()
            refused_until = min(refused_until, now + _REFUSED_SECONDS) if error.state is LogState.ADMIN_REFUSED else math.inf
            if now >= refused_until:
                raise LogError(LogState.ACCESS_DENIED, error.message) from error
            _log.warning("Reading a change log waits to hear whether something is missing: %s", error.message)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
