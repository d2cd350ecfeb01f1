"""What ``continuity`` asks about one partition: the broker, and the ledgers."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

from ....core.reasons import Reason
from ...change_log import LogError
from ..admin.topics import Compaction
from ..ids import NOWHERE, MessageId
from .continuity import UNREADABLE, Continuity, State, Stretch
from .receiving import Received

_log = logging.getLogger(__name__)

_SETTLING_SECONDS = 0.5
_PAUSES = (0.5, 1.0, 2.0, 4.0)
"""After each of them entries that did not come are asked for once more, in seconds."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0
_REFUSED_SECONDS = 30.0
"""For so long it is waited for an answer where all are refused: a token may have expired, and another one be on its way."""
_T = TypeVar("_T")

Recall: TypeAlias = Callable[[MessageId, MessageId], Awaitable[Sequence[Received] | None]]
"""Reads the first entries between two as they were, as many as may be held at once; none if none stands there. None: some can't be had.
``LogError``: they can't be had now."""


class Questions:
    """Asks until there is an answer."""

    def __init__(
        self,
        compaction: Callable[[], Awaitable[Compaction]],
        skipped: Callable[[MessageId, MessageId], Awaitable[MessageId | None]],
        recall: Recall | None = None,
        replaced: Callable[[], Awaitable[LogError | None]] | None = None,
    ) -> None:
        """All but ``recall`` ask the broker, and may raise ``LogError``.

        Args:
            compaction: for its compaction.
            skipped: for the first message between two entries.
            recall: reads entries in the ledgers; None: they can't be had.
            replaced: whether the log is another one by now (``existence``); None: it never is.
        """
        self._compaction = compaction
        self._skipped = skipped
        self._recall = recall
        self._replaced = replaced

    async def ask(self, continuity: Continuity) -> Sequence[Received]:
        """Asks what continuity has to know in its state, and tells it, but for entries: those are told of when they are delivered.

        Returns:
            Entries that are to be delivered, if some were asked for and there are any.

        Raises:
            LogError: something was missed.
        """
        match continuity.state:
            case State.COMPACTION | State.CONFIRMING:
                continuity.compacted(await _answer(self._compaction))
            case State.SETTLING:
                await asyncio.sleep(_SETTLING_SECONDS)  # how far a compaction went is told a moment after it counts
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
        """Makes sure that the log is the one that was opened.

        Raises:
            LogError: it is not.
        """
        if self._replaced is not None and (error := await _answer(self._replaced)) is not None:
            raise error

    async def keep_up(self, continuity: Continuity) -> MessageId:
        """Learns of compactions.

        Returns:
            Up to where one may have taken away what was not read, and will never come: a deletion, and its key; ``NOWHERE``: none has.

        Raises:
            LogError: there is no answer.
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
        """Entries as they stand in the ledgers. What does not come is asked for a few times; then the log is as well opened anew."""
        if self._recall is None:
            return None
        pauses = iter(_PAUSES)
        while True:
            try:
                return await self._recall(*stretch)
            except LogError as error:
                pause = next(pauses, None)
                if pause is None:
                    _log.warning("Reading a change log does not wait any longer: %s", error.message)
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
    """The broker's answer, which reading has to wait for.

    Raises:
        LogError: it is refused (``LOG_ACCESS_DENIED``), and goes on being so.
    """
    pause = _FIRST_PAUSE
    refused_until = math.inf
    while True:
        try:
            return await ask()
        except LogError as error:
            now = time.monotonic()
            refused_until = min(refused_until, now + _REFUSED_SECONDS) if error.reason == Reason.PULSAR_ADMIN_REFUSED else math.inf
            if now >= refused_until:
                raise LogError(Reason.LOG_ACCESS_DENIED, error.message) from error
            _log.warning("Reading a change log waits to hear whether something is missing: %s", error.message)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
