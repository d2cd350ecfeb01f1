"""What a part has told, and what waits to be taken: records, and where the reader stands with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from topicpolicies.v1 import service_pb2

from ...core.errors import Kind, PolicyError
from ...core.reading.watch import Mode, Token
from ...core.reasons import Reason
from .. import answers

Said = tuple[service_pb2.NamespaceState.ValueType, Reason | None, str]
"""A namespace's state, why it is that, and the same in words."""
UNTOLD: Said = (service_pb2.NAMESPACE_STATE_READY, None, "")
"""A namespace that is ready from the start does not say so."""
RETRY_SECONDS = (0.1, 10.0)
"""The first and the longest pause before what failed is tried again."""


class Outbox:
    """What is told of one namespace, in order."""

    def __init__(self, name: str, mode: Mode, token: Token | None, wake: Callable[[], None]) -> None:
        """Nothing is told yet.

        Args:
            name: ``tenant/namespace``.
            mode: of the watch.
            token: where the reader stands; None: nowhere.
            wake: called when there is something to take.
        """
        self.name = name
        self.token = token
        """Where to go on, while there is no watcher; None: at the beginning."""
        self.counts = token is not None
        """Whether the reader may have something of this namespace that counts."""
        self.synced = False
        """Whether SYNCED was told, and nothing that undoes it."""
        self._mode = mode
        self._wake = wake
        self._records: list[bytes] = []
        self._said = UNTOLD
        self._taken: asyncio.Event | None = None
        """Set when what waits is taken; None: nobody waits for that."""

    def __len__(self) -> int:
        return len(self._records)

    def tell(self, record: bytes) -> None:
        """A record waits to be taken."""
        self._records.append(record)
        self.counts = True
        self._wake()

    def reset(self, reason: Reason, message: str) -> None:
        """The reader begins anew, if it has anything that counts."""
        self.token = None
        self.synced = False
        if self.counts:
            follows = "What the history has follows" if self._mode is Mode.ENTRIES else "A snapshot follows"
            self.tell(answers.reset(self.name, reason, f"{message} {follows}."))
            self.counts = False

    def sync(self, token: Token, confirmed_ms: int) -> None:
        """SYNCED, with the place where the reader then stands."""
        self.tell(answers.bookmark(self.name, service_pb2.BOOKMARK_KIND_SYNCED, token, confirmed_ms))
        self.synced = True
        self.token = token

    def status(self, now: Said) -> bytes | None:
        """A record of the namespace's state; None if it was told last."""
        if now == self._said:
            return None
        self._said = now
        return answers.namespace_status(self.name, *now)

    def take(self) -> list[bytes]:
        """What waits."""
        records, self._records = self._records, []
        if self._taken is not None:
            self._taken.set()
        return records

    async def emptied(self) -> None:
        """Returns when all that was told has been taken."""
        self._taken = self._taken or asyncio.Event()
        while self._records:
            self._taken.clear()
            await self._taken.wait()


class Gone(Exception):
    """The reader can't go on from its token."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason = reason


def failure_of(name: str, error: BaseException) -> PolicyError:
    """What is told of a failure with a namespace, foreseen or not."""
    if isinstance(error, PolicyError):
        return error
    return PolicyError(Kind.INTERNAL, Reason.INTERNAL, f"{name} can't be told of, for a reason that this server's own log has: look there.")
