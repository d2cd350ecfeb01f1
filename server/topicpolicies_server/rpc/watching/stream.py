"""The streams of WatchPolicies and WatchHistory: any number of namespaces, each a part of its own, sent in batches.

A part (``Part``) is one namespace of a stream. It has a task that follows the namespace, which is retried when it fails (the failure is
sent as a status), and the records that this task has made. Changes that need no waiting are made when the stream takes them.

The stream pulls: it takes records from its parts only when the last message has been written, so a client that does not read holds up no
other one. What is there at that moment goes into messages that are bounded in bytes and in parts; none waits for more records. Only parts
that have something to take are looked at: a change in one of a thousand namespaces costs the same as in one of two.

The callers' permissions are checked every second while their streams are open, those of all streams by one task. While the caller lacks the
permission for a part, nothing but a status is taken from it; once it is granted again, the part goes on where it stood. How long a stream
may go on after a permission was withdrawn: until that is noticed (a file: ``files.LOOK_SECONDS``; brokers:
``authorization_cache_seconds``), plus ``LOOK_SECONDS`` and ``ASK_SECONDS``.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeAlias

from topicpolicies.v1 import errors_pb2, service_pb2

from ...access import Granted, Permission
from ...access.grants import Grants, known
from ...core.errors import Kind, PolicyError, stopping, too_much
from ...core.reasons import Reason
from ...namespaces.namespace import Namespace, Phase
from ...namespaces.registry import Registry
from ...tasks import RestartedTask, TaskSet
from .. import errors
from ..answers import Wire, wire_of
from ..calls import Call

MESSAGE_BYTES = 64 << 10
"""A message is sent when it has so many bytes; what a part has at a time may exceed it. One so long fits into HTTP/2's initial window, so
it is sent while the client still handles the message before; a busy client has to wait for longer ones."""
PARTS_A_TURN = 50
"""How many parts are begun, looked at or closed before other tasks have their turn: a millisecond or two, if there is little to send."""
LOOK_SECONDS = 1.0
"""Seconds between two checks of permissions."""
ASK_SECONDS = 3.0
"""Seconds that brokers may take to answer such a check."""
_CHECKED = 1_000
"""How many permissions are checked before other tasks have their turn."""
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
        self._records: deque[bytes] = deque()
        self._taken = asyncio.Event()
        """Set when the waiting records are taken."""
        self._namespace: Namespace | None = None
        self._synced = False
        """Whether SYNCED was sent, or waits, without a reset since."""
        self._rests = ""
        """Why there is nothing to follow, and the client was sent that; "": there is."""
        self._sent_status = _ASSUMED
        self._failure: PolicyError | None = None
        """Why the last attempt to follow the namespace failed; None: it did not, or has succeeded since."""
        self._task = RestartedTask(f"{what} {name}", self._run, failed=self._failed)

    # --- called by the stream -----------------------------------------------------------------------------------

    def learn(self, found: Granted | Exception) -> bool:
        """Takes the permissions that the caller has now, or why it lacks one or they are not known. Returns whether it is refused anew."""
        before = self.refusal, self.wire
        if isinstance(found, frozenset):
            self.refusal, self.wire = None, wire_of(found)
        else:
            refusal = _refusal(self.name, found)
            if self.refusal is None or self.refusal.reason is not refusal.reason:
                self.refusal = refusal
        if (self.refusal, self.wire) == before:
            return False
        self._notify()
        return self.refusal is not None

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
            content = service_pb2.NamespaceStatus(state=state, reason=_number(reason), message=message[:_MOST_MESSAGE])
            taken.append(self._event(None if self._records else self._place(), status=content))
        if self.refusal is None:
            size = 0
            while self._records and size < MESSAGE_BYTES:
                taken.append(self._records.popleft())
                size += len(taken[-1])
            if self._records:
                self.more = True
            else:
                self._taken.set()
                taken += self._take_changes()
        return taken

    def bookmark(self) -> bytes:
        """Returns a bookmark for now; empty: the client's copy is not known to be up to date, records wait, or there is no token."""
        namespace = self._namespace
        follows = self._rests or (namespace is not None and namespace.phase is Phase.READY and self._failure is None)
        place = self._place() if self._synced and follows and not self._records and self.refusal is None else None
        return self._bookmark(place, synced=False) if place is not None else b""

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
        self._add(self._event(None, reset=service_pb2.WatchReset(reason=_number(reason), message=message[:_MOST_MESSAGE])))

    def _status(self) -> Status:
        problem, namespace = self.refusal or self._failure, self._namespace
        if self._rests and self.refusal is None:
            return service_pb2.NAMESPACE_STATE_DISABLED, Reason.TOPIC_POLICIES_DISABLED, self._rests
        if problem is not None:
            return service_pb2.NAMESPACE_STATE_FAILED, problem.reason, problem.message
        if namespace is None or namespace.phase is Phase.READY:
            return _ASSUMED
        if namespace.phase is Phase.LOADING:
            return service_pb2.NAMESPACE_STATE_LOADING, namespace.cause, namespace.problem or f"{self.name} is being read."
        return service_pb2.NAMESPACE_STATE_FAILED, namespace.cause, namespace.problem


def _number(reason: Reason | None) -> errors_pb2.ErrorReason.ValueType:
    """Returns the enum value of a reason; UNSPECIFIED for None."""
    return errors_pb2.ErrorReason.Value(f"ERROR_REASON_{'UNSPECIFIED' if reason is None else reason.value}")


PartOf: TypeAlias = Callable[[str, Callable[[], None], Wire], Part]
"""Makes the part of a namespace, given its name, what it calls when there may be something to take, and what serializes documents for the
caller."""


class WatchStream:
    """What one stream has to send."""

    def __init__(self, call: Call, needed: tuple[Permission, ...], bookmark_seconds: float) -> None:
        """Has no parts. ``needed``: the permissions that the caller needs in each namespace."""
        self.call = call
        self.needed = needed
        self.parts: list[Part] = []
        self.notified = asyncio.Event()
        """Set when there may be something to send."""
        self._due: dict[Part, None] = {}
        """The parts that have something to take, as far as is known, in the order in which they said so."""
        self._bookmark_due = False
        self._stops = False
        self._interval = bookmark_seconds
        self._timer = asyncio.get_running_loop().call_later(bookmark_seconds, self._mark)

    def begin(self, part_of: PartOf, name: str, wire: Wire) -> None:
        """Begins another part."""

        def notify() -> None:
            self._due[part] = None
            self.notified.set()

        part = part_of(name, notify, wire)
        self.parts.append(part)
        part.begin()
        notify()

    def stop(self) -> None:
        """Has the stream end behind a bookmark of each part, because the server stops."""
        self._stops = True
        self._mark()

    def _mark(self) -> None:
        """Has a bookmark of each part sent, now and each time when the interval has passed."""
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._mark)
        self._bookmark_due = True
        self._due |= dict.fromkeys(self.parts)
        self.notified.set()

    def messages(self) -> Iterator[bytes]:
        """Takes records from the parts that are due, and yields them as messages; an empty one if it is only the turn of other tasks.

        Nothing that was taken waits while a message is written, so what is sent next is what the caller may be shown then.

        Raises:
            PolicyError: UNAVAILABLE, the server stops, and the last bookmarks were sent.
        """
        due, self._due = self._due, {}
        mark, self._bookmark_due, stops = self._bookmark_due, False, self._stops
        records: list[bytes] = []
        size = 0
        for number, part in enumerate(due, 1):
            taken = part.take()
            if mark:
                taken.append(part.bookmark())
            if part.more:
                self._due[part] = None
                self.notified.set()
            records += taken
            size += sum(map(len, taken))
            if size >= MESSAGE_BYTES or not number % PARTS_A_TURN:
                yield b"".join(records)
                records, size = [], 0
        yield b"".join(records)
        if stops:
            raise stopping()

    def learn(self, part: Part, found: Granted | Exception) -> None:
        """Takes the result of a check of the caller's permissions for a part. The stream ends if the caller may not watch any part."""
        refusals = (each.refusal for each in self.parts)
        if part.learn(found) and all(each is not None and each.kind is Kind.PERMISSION_DENIED for each in refusals):
            assert part.refusal is not None, "it is one of them"
            self.call.end(part.refusal)

    async def close(self) -> None:
        """Closes all parts: gives back their watchers and namespaces."""
        self._timer.cancel()
        for begin in range(0, len(self.parts), PARTS_A_TURN):
            await asyncio.gather(*(part.close() for part in self.parts[begin : begin + PARTS_A_TURN]))


class WatchStreams:
    """The open streams of a server."""

    def __init__(self, most: int, grants: Grants) -> None:
        """Begins without streams. ``most``: how many may be open; ``grants``: permits them."""
        self._most = most
        self._grants = grants
        self._open: dict[WatchStream, None] = {}
        self._closing = TaskSet("watches")
        """The tasks in which ended streams release their watchers and namespaces."""
        self._stops = False
        self._asked: set[Part] = set()
        """The parts for which an authority is being asked."""
        self._asking = TaskSet("the permissions of watches")
        self._checking = RestartedTask("checking the permissions of watches", self._check_permits)

    def records(self) -> list[int]:
        """Returns, for each stream, how many records wait in it. Safe to call from any thread."""
        return [sum(part.waiting for part in list(stream.parts)) for stream in list(self._open)]

    def stop(self) -> None:
        """Ends every stream with UNAVAILABLE, and new ones at once."""
        self._stops = True
        for stream in self._open:
            stream.stop()

    async def closed(self) -> None:
        """Returns when every ended stream has released its watchers and namespaces."""
        self._checking.cancel()
        await self._asking.close()
        await self._closing.close(cancel=False)

    async def run(self, call: Call, needed: tuple[Permission, ...], names: Iterable[str], part_of: PartOf, bookmark_seconds: float) -> None:
        """Serves one stream, until the caller ends it.

        Args:
            call: the call.
            needed: the permissions that the caller needs in each namespace.
            names: the namespaces.
            part_of: makes the part of one.
            bookmark_seconds: the time between two bookmarks.

        Raises:
            PolicyError: RESOURCE_EXHAUSTED, too many streams are open; PERMISSION_DENIED, the caller lacks a permission for one of the
                namespaces at first, or for all of them later; UNAVAILABLE, the server stops.
        """
        if len(self._open) >= self._most:
            problem = f"{len(self._open)} watches are open, which is the limit: share one, or raise max_watches."
            raise too_much("max_watches", self._most, problem)
        stream = WatchStream(call, needed, bookmark_seconds)
        self._open[stream] = None
        if self._stops:
            stream.stop()
        if self._grants.roles is not None:
            self._checking.start()
        try:
            all_names, granted = list(names), list[Granted]()
            for at in range(0, len(all_names), _CHECKED):
                granted += await asyncio.gather(*(self._granted(call, name, needed) for name in all_names[at : at + _CHECKED]))
            for number, (name, permissions) in enumerate(zip(all_names, granted, strict=True), 1):
                stream.begin(part_of, name, wire_of(permissions))
                if not number % PARTS_A_TURN:
                    await asyncio.sleep(0)
            while True:
                await stream.notified.wait()
                stream.notified.clear()
                for message in stream.messages():
                    await (call.write(message) if message else asyncio.sleep(0))
        finally:
            self._open.pop(stream, None)
            if not self._open:
                self._checking.cancel()
            closing = self._closing.begin(stream.close(), "releasing the source of a stream")
            await asyncio.shield(closing)  # a cancellation of the call now must not cancel the release

    async def _granted(self, call: Call, name: str, needed: tuple[Permission, ...]) -> Granted:
        return await known(self._grants.of(call.caller, name, needed))

    async def _check_permits(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            watched = ((stream, part) for stream in list(self._open) for part in list(stream.parts))
            for number, (stream, part) in enumerate(watched, 1):
                if part not in self._asked and stream in self._open:
                    self._check(stream, part)
                if not number % _CHECKED:
                    await asyncio.sleep(0)

    def _check(self, stream: WatchStream, part: Part) -> None:
        """Checks whether a caller may watch a namespace; an answer that is not at hand is awaited by another task."""
        found: Granted | Awaitable[Granted] | Exception
        try:
            found = self._grants.of(stream.call.caller, part.name, stream.needed)
        except Exception as error:  # noqa: BLE001 (it becomes a refusal)
            found = error
        if isinstance(found, Awaitable):
            self._asked.add(part)
            self._asking.begin(self._ask(stream, part, found), "the permissions of a watch")
        else:
            stream.learn(part, found)

    async def _ask(self, stream: WatchStream, part: Part, granted: Awaitable[Granted]) -> None:
        found: Granted | Exception
        try:
            async with asyncio.timeout(ASK_SECONDS):
                found = await granted
        except Exception as error:  # noqa: BLE001 (it becomes a refusal)
            found = error
        finally:
            self._asked.discard(part)
        stream.learn(part, found)


def _refusal(namespace: str, error: Exception) -> PolicyError:
    """Returns why a caller may not watch a namespace after a check has failed."""
    if isinstance(error, PolicyError):
        return error
    if isinstance(error, TimeoutError):
        problem = f"The caller's permissions in {namespace} were not known within {ASK_SECONDS:g} s: they are requested again."
    else:
        errors.log_failure("A check of a watch's permissions", error)
        problem = f"The caller's permissions in {namespace} can't be determined; this server's log has the reason."
    return PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, problem)
