"""A part: one namespace of a stream. It has the records that wait until the stream takes them, and a task that makes them.

The task is retried when it fails, and the failure is sent as a status. While the caller lacks the permission (``stream``), nothing is taken
but a status; once it is granted again, the part goes on where it stood.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from topicpolicies.v1 import service_pb2

from ...core.errors import Kind, PolicyError
from ...core.reasons import Reason
from ...namespaces.namespace import Namespace, Phase
from ...namespaces.registry import Registry
from ...tasks import RestartedTask
from ..answers import Wire
from .events import reason_number

_FIRST_SECONDS, _LONGEST_SECONDS = 0.1, 10.0
"""The first and the longest pause, in seconds, before a step that failed is retried."""
_MOST_MESSAGE = 4_096

Status: TypeAlias = tuple[service_pb2.NamespaceState.ValueType, Reason | None, str]
"""The content of a status: the namespace's state, the reason, and the reason in words."""
_ASSUMED: Status = (service_pb2.NAMESPACE_STATE_READY, None, "")
"""The status that a client assumes before it is sent one: a namespace that is READY from the start sends none."""


class Part(ABC):
    """One namespace of a stream."""

    def __init__(self, registry: Registry, name: str, what: str, notify: Callable[[], None], wire: Wire) -> None:
        """``what``: what the task is for, in messages; ``notify``: called when there may be something to take."""
        self.name = name
        self.more = False
        """Whether the last ``take`` left something that can be taken at once."""
        self.wire = wire
        self.refusal: PolicyError | None = None
        """Why the caller may not watch this namespace now; None: it may."""
        self._registry = registry
        self._notify = notify
        self._records: list[bytes] = []
        self._taken = asyncio.Event()
        """Set when the waiting records are taken."""
        self._namespace: Namespace | None = None
        self._synced = False
        """Whether SYNCED was sent, or waits, without a reset since."""
        self._sent_status = _ASSUMED
        self._failure: PolicyError | None = None
        """Why the last attempt to follow the namespace failed; None: it did not, or has succeeded since."""
        self._task = RestartedTask(f"{what} {name}", self._run, failed=self._failed)

    # --- called by the stream -----------------------------------------------------------------------------------

    def learn(self, refusal: PolicyError | None, wire: Wire) -> bool:
        """Takes the result of a check of the caller's permission. Returns whether it is another one than the last."""
        if refusal is not None and self.refusal is not None and refusal.reason is self.refusal.reason:
            return False
        changed = refusal is not self.refusal or wire is not self.wire
        self.refusal, self.wire = refusal, wire
        if changed:
            self._notify()
        return changed

    @property
    def waiting(self) -> int:
        """How many records wait. Changes that are still in the namespace or the history do not count."""
        return len(self._records)

    def begin(self) -> None:
        """Starts the task."""
        self._task.start()

    async def close(self) -> None:
        """Stops the task, and gives back what the part holds."""
        await self._task.stop()

    def take(self) -> list[bytes]:
        """Takes the next records; each element is one serialized record, or several joined."""
        self.more = False
        taken: list[bytes] = []
        if (status := self._status()) != self._sent_status:
            self._sent_status = status
            state, reason, message = status
            content = service_pb2.NamespaceStatus(state=state, reason=reason_number(reason), message=message[:_MOST_MESSAGE])
            taken.append(self._event(None if self._records else self._place(), status=content))
        if self.refusal is None:
            taken += self._records
            self._records.clear()
            self._taken.set()
            taken += self._take_changes()
        return taken

    def bookmark(self) -> bytes | None:
        """Returns a bookmark for now; None: the client's copy is not known to be up to date, records wait, or there is no token."""
        if self.refusal is not None or self._records or not self._synced or not self._follows() or (place := self._place()) is None:
            return None
        return self._bookmark(place, synced=False)

    def _take_changes(self) -> list[bytes]:
        """Takes what does not wait as records, and sets ``more``."""
        return []

    # --- the task -------------------------------------------------------------------------------------------------

    @abstractmethod
    async def _follow(self) -> None:
        """Follows the namespace until that has to be begun anew.

        Raises:
            PolicyError: a step failed.
        """

    async def _run(self) -> None:
        """Follows the namespace until the stream ends. An unforeseen error is raised to ``RestartedTask``, which calls this again."""
        loop, pause = asyncio.get_running_loop(), _FIRST_SECONDS
        while True:
            began = loop.time()
            try:
                await self._follow()
            except PolicyError as error:
                self._failed(error)
                if loop.time() - began > _LONGEST_SECONDS:
                    pause = _FIRST_SECONDS
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_SECONDS)

    def _failed(self, error: BaseException) -> None:
        """Has the error sent as a status."""
        problem = f"{self.name} can't be watched; this server's log has the reason."
        self._failure = error if isinstance(error, PolicyError) else PolicyError(Kind.INTERNAL, Reason.INTERNAL, problem)
        self._notify()

    def _follows(self) -> bool:
        """Returns whether what is sent is up to date: bookmarks come only then."""
        return self._namespace is not None and self._namespace.phase is Phase.READY and self._failure is None

    def _add(self, record: bytes) -> None:
        """Appends a record, and notifies the stream."""
        self._records.append(record)
        self._notify()

    async def _all_taken(self) -> None:
        """Returns when no records wait."""
        while self._records:
            self._taken.clear()
            await self._taken.wait()

    # --- what is sent ---------------------------------------------------------------------------------------------

    @abstractmethod
    def _event(self, place: str | None, **content: Any) -> bytes:
        """Returns an event as a record: a bookmark, a status or a reset. ``place``: where the client stands behind it, if there is that."""

    @abstractmethod
    def _place(self) -> str | None:
        """Returns where the client stands once it has what was taken and the records that wait; None: nothing goes on from there."""

    @abstractmethod
    def _complete_as_of_ms(self) -> int:
        """Returns as of when the client was sent everything, in milliseconds since 1970; 0: that is not known."""

    def _bookmark(self, place: str, *, synced: bool) -> bytes:
        """Returns a bookmark. ``synced``: whether the snapshot is complete with it, or the resumed watch has caught up."""
        content, complete = service_pb2.Bookmark(synced=synced), self._complete_as_of_ms()
        if complete:
            content.age.FromMilliseconds(max(self._registry.common.now() - complete, 0))
            content.confirmed_time.FromMilliseconds(complete)
        return self._event(place, bookmark=content)

    def _add_reset(self, reason: Reason, message: str) -> None:
        """Has a reset sent."""
        self._add(self._event(None, reset=service_pb2.WatchReset(reason=reason_number(reason), message=message[:_MOST_MESSAGE])))

    def _status(self) -> Status:
        problem, namespace = self.refusal or self._failure, self._namespace
        if problem is not None:
            return service_pb2.NAMESPACE_STATE_FAILED, problem.reason, problem.message
        if namespace is None or namespace.phase is Phase.READY:
            return _ASSUMED
        if namespace.phase is Phase.LOADING:
            return service_pb2.NAMESPACE_STATE_LOADING, namespace.cause, namespace.problem or f"{self.name} is being read."
        return service_pb2.NAMESPACE_STATE_FAILED, namespace.cause, namespace.problem
