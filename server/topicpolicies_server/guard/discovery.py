"""Asks brokers which namespaces match the guard's patterns, one question after the other, and yields what changed.

Pulsar has no event for a new namespace, so the guard has to ask. What to ask, and what the answers mean, is in ``findings``; in which
order, in ``agenda``; how fast, in ``pace``.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Protocol

from ..config import Limits
from ..core.errors import PolicyError
from ..core.reasons import LogState
from ..logs.change_log import LogError
from .agenda import About, Agenda, Question
from .findings import Changes, Findings
from .pace import Pace
from .patterns import Pattern

_LOG = logging.getLogger(__name__)
_TRYING_SECONDS = 5.0
"""How long a question is repeated while brokers do not answer."""
_ANSWER_SECONDS = 30.0
"""After this time a question counts as unanswered, even if part of the answer has come."""
_TELL_SECONDS = 60.0
"""How often to log that there are no answers."""


class Answers(Protocol):
    """The admin API, as far as it is needed here (``logs.pulsar.admin.Admin``)."""

    async def get(self, *path: str, seconds: float) -> object:
        """Returns the answer to ``GET /admin/v2/<path>``: the JSON, or None for "not found"."""


class Discovery:
    """Finds the namespaces of a cluster that match and have a change log. It belongs to the event loop that it is used on."""

    def __init__(
        self, admin: Answers, patterns: tuple[str, ...], *, refresh_seconds: float, per_second: float, chance: random.Random | None = None
    ) -> None:
        """Asks nothing yet.

        Args:
            admin: the brokers' admin API.
            patterns: which namespaces are wanted.
            refresh_seconds: how often to repeat a question.
            per_second: the most questions in a second, whatever they are about.
            chance: spreads the questions.
        """
        self.asked: Counter[str] = Counter()
        """How many questions were asked, by what they were about."""
        self._admin = admin
        self._agenda = Agenda()
        self._findings = Findings(Pattern.of(patterns), self._agenda, refresh_seconds, chance or random.Random())
        self._pace = Pace(per_second)
        self._told_at = float("-inf")
        self._refusal_told = False

    async def changes(self) -> AsyncGenerator[Changes, None]:
        """Yields what changed, forever. It may be called again, also after an error, and goes on from there."""
        loop = asyncio.get_running_loop()
        while True:
            due = self._agenda.next_due()
            await asyncio.sleep(max(due - loop.time(), 0.0) if due is not None else _TELL_SECONDS)
            question = self._agenda.take(loop.time())
            if question is None:
                continue
            began = loop.time()
            changes = await self._ask(question, began)
            if changes != Changes():
                yield changes
            await asyncio.sleep(self._pace.pause(loop.time() - began))

    async def _ask(self, question: Question, began: float) -> Changes:
        """Asks one question. If it has to be repeated, it is on the agenda again, also after an error."""
        now = asyncio.get_running_loop().time
        self.asked[question.about.value] += 1
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await self._admin.get(*self._findings.path(question), seconds=_TRYING_SECONDS)
            return self._findings.take(question, answer, now(), now() - began)
        except TimeoutError:
            self._failed(
                question, LogError(LogState.ADMIN_UNREACHABLE, f"Brokers have not answered within {_ANSWER_SECONDS:.0f} s."), now()
            )
        except PolicyError as error:
            self._failed(question, error, now())
        except BaseException:
            self._findings.failed(question, LogError(LogState.ADMIN_UNREACHABLE, "The request was not completed."), now())
            raise
        return Changes()

    def _failed(self, question: Question, error: PolicyError, now: float) -> None:
        self._findings.failed(question, error, now)
        if error.state is LogState.ADMIN_REFUSED and question.about in (About.CLUSTER, About.BROKERS, About.LOADED):
            if not self._refusal_told:
                self._refusal_told = True
                _LOG.info(
                    "Brokers show what they have loaded only to superusers, so the guard lists the namespaces of tenants instead: %s",
                    error.message,
                )
        elif now - self._told_at >= _TELL_SECONDS:
            self._told_at = now
            _LOG.warning("the namespaces to guard can't be listed, so the present %d stay: %s", len(self._findings.found), error.message)


def discovery(admin: Answers, patterns: tuple[str, ...], limits: Limits) -> Discovery:
    """Makes the discovery of namespaces within a server's limits."""
    return Discovery(admin, patterns, refresh_seconds=limits.guard_refresh_seconds, per_second=limits.max_guard_questions_per_second)
