"""What a part consists of: the records that wait until the stream takes them, and a task that makes them and is retried when it fails."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from ...core.errors import Kind, PolicyError
from ...core.reading.tokens import Token
from ...core.reasons import Reason
from ...tasks import RestartedTask
from . import events
from .authorizations import Authorization
from .stages import ASSUMED, Status

_FIRST_SECONDS, _LONGEST_SECONDS = 0.1, 10.0
"""The first and the longest pause, in seconds, before a step that failed is retried."""
_FINAL = frozenset({Reason.SHUTTING_DOWN, Reason.LIMIT_REACHED})
"""Reasons of errors that end the stream instead of being retried."""


class Records:
    """The records of one namespace that wait to be taken, in order."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Begins empty. ``wake``: called when there is something to take."""
        self._wake = wake
        self._records: list[bytes] = []
        self._taken: asyncio.Event | None = None
        """Set when the waiting records are taken; None until ``emptied`` was called for the first time."""

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: bytes) -> None:
        """Appends a record, and wakes the stream."""
        self._records.append(record)
        self._wake()

    def take(self) -> list[bytes]:
        """Takes all waiting records."""
        records, self._records = self._records, []
        if self._taken is not None:
            self._taken.set()
        return records

    async def emptied(self) -> None:
        """Returns when all records have been taken."""
        self._taken = self._taken or asyncio.Event()
        while self._records:
            self._taken.clear()
            await self._taken.wait()


class Outbox(Records):
    """The records of one namespace of a watch, and what the client has been sent so far."""

    def __init__(self, name: str, token: Token | None, wake: Callable[[], None]) -> None:
        """Begins empty.

        Args:
            name: ``tenant/namespace``.
            token: the token that the client resumes from; None: it has none.
            wake: called when there is something to take.
        """
        super().__init__(wake)
        self.name = name
        self.token = token
        """Where the part goes on, while it has no watcher; None: from the beginning."""
        self.counts = token is not None
        """Whether the client may have something of this namespace that a reset would invalidate."""
        self.synced = False
        """Whether SYNCED was sent, or waits here, without a reset since."""
        self.told = ASSUMED
        """The last status that was sent."""

    def add(self, record: bytes) -> None:
        """Appends a record, and wakes the stream."""
        self.counts = True
        super().add(record)

    def reset(self, reason: Reason, message: str) -> None:
        """Forgets the token, and appends a reset if the client may have anything that it invalidates."""
        self.token = None
        self.synced = False
        if self.counts:
            self.add(events.reset(self.name, reason, f"{message} A snapshot follows."))
            self.counts = False

    def sync(self, token: Token, now_ms: int) -> None:
        """Appends SYNCED with a token, which is where the client then stands, as of now."""
        self.add(events.bookmark(self.name, token, now_ms, now_ms, synced=True))
        self.synced = True
        self.token = token

    def status(self, now: Status, token: Token | None) -> bytes | None:
        """Returns a status record; None if the same status was returned last.

        Args:
            now: the status.
            token: where the watch stands; None: it can't be resumed there.
        """
        if now == self.told:
            return None
        self.told = now
        return events.namespace_status(self.name, *now, token if not self._records else None)


class Gone(Exception):
    """A watch can't go on from its token."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason = reason


class RetriedPart(ABC):
    """What the parts of both kinds of streams have in common: the caller's permission, and a task that is retried when it fails."""

    def __init__(self, name: str, what: str, wake: Callable[[], None], authorization: Authorization) -> None:
        """Does nothing before ``begin``.

        Args:
            name: ``tenant/namespace``.
            what: what the task is for, in messages.
            wake: called when there may be something to take.
            authorization: the caller's permission in this namespace, as of the last check.
        """
        self.name = name
        self.more = False
        """Whether the last ``take`` left something that can be taken at once."""
        self.authorization = authorization
        """The caller's permission in this namespace, as of the last check."""
        self._wake = wake
        self._failure: PolicyError | None = None
        """Why the last attempt to follow the namespace failed; None: it did not, or has succeeded since."""
        self._fault: PolicyError | None = None
        """The error that ends the stream."""
        self._life = RestartedTask(f"{what} {name}", self._live, failed=self._failed)

    @property
    def refusal(self) -> PolicyError | None:
        """Why the caller may not watch this namespace now; None: it may."""
        return self.authorization.refusal

    def begin(self) -> None:
        """Starts the task."""
        self._life.start()

    async def close(self) -> None:
        """Stops the task, and gives back what the part holds."""
        await self._life.stop()

    @abstractmethod
    async def _once(self) -> None:
        """Follows the namespace until that has to be begun anew.

        Raises:
            PolicyError: a step failed.
        """

    async def _live(self) -> None:
        """Follows the namespace until the stream ends. An unforeseen error is raised to ``RestartedTask``, which calls this again."""
        loop, pause = asyncio.get_running_loop(), _FIRST_SECONDS
        while self._fault is None:
            began = loop.time()
            try:
                await self._once()
            except PolicyError as error:
                self._failed(error)
                if loop.time() - began > _LONGEST_SECONDS:
                    pause = _FIRST_SECONDS
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_SECONDS)

    def _failed(self, error: BaseException) -> None:
        """Has the error sent as a status; or ends the stream if the error concerns all of it."""
        problem = f"{self.name} can't be watched; this server's log has the reason."
        self._failure = error if isinstance(error, PolicyError) else PolicyError(Kind.INTERNAL, Reason.INTERNAL, problem)
        if self._failure.reason in _FINAL:
            self._fault = self._failure
        self._wake()
