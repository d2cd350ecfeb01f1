"""The streams of WatchPolicies and WatchHistory: any number of namespaces, each a part of its own (``part``), sent in batches.

The stream pulls: it takes records from its parts only when the last message has been written, so a client that does not read holds up no
other one. All records that are there at that moment go into one message, bounded in bytes; a message never waits for more records. Only
parts that have notified the stream are looked at: a change in one of a thousand namespaces costs the same as in one of
two.

The callers' permissions are checked every second while their streams are open, those of all streams by one task. How long a stream may go
on after a permission was withdrawn: until that is noticed (a file: ``files.LOOK_SECONDS``; brokers: ``authorization_cache_seconds``), plus
``LOOK_SECONDS`` and ``ASK_SECONDS``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from ...access import Granted, Permission
from ...access.grants import Grants, known
from ...core.errors import Kind, PolicyError, stopping, too_much
from ...core.reasons import Reason
from ...tasks import RestartedTask, TaskSet
from .. import errors
from ..answers import Wire, wire_of
from ..calls import Call
from .part import Part

MESSAGE_BYTES = 256 * 1024
"""The most bytes of records in a message; only a single record may exceed it."""
TURN = 50
"""How many parts are begun, looked at or closed before other tasks have their turn: a millisecond or two, if there is little to send."""
LOOK_SECONDS = 1.0
"""Seconds between two checks of permissions."""
ASK_SECONDS = 3.0
"""Seconds that brokers may take to answer such a check."""
_CHECKED = 1_000
"""How many permissions are checked before other tasks have their turn."""
PartOf = Callable[[str, Callable[[], None], Wire], Part]
"""Makes the part of a namespace, given its name, what it calls when there may be something to take, and what serializes documents for the
caller."""


class WatchStream:
    """Sends the messages of one stream."""

    def __init__(self, call: Call, part_of: PartOf, bookmark_seconds: float) -> None:
        """Does nothing before ``run``."""
        self._call = call
        self._part_of = part_of
        self._interval = bookmark_seconds
        self.parts: list[Part] = []
        self._due: dict[Part, None] = {}
        """The parts that have something to take, as far as is known, in the order in which they said so."""
        self._notified = asyncio.Event()
        self._bookmark_due = False
        self._stops = False
        self._pieces: list[bytes] = []
        """The message that is being composed."""
        self._size = 0

    async def run(self, granted: Iterable[tuple[str, Granted]]) -> None:
        """Writes serialized messages without end. ``granted``: what the caller is granted in each of its namespaces.

        Raises:
            PolicyError: UNAVAILABLE, the server stops, or permissions changed while the client did not read.
        """
        for number, (name, permissions) in enumerate(granted, 1):
            self._begin(name, wire_of(permissions))
            if not number % TURN:
                await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._interval, self._mark_all)
        try:
            while True:
                if self._bookmark_due:
                    timer.cancel()
                    timer = loop.call_later(self._interval, self._mark_all)
                await self._take()
                await self._send()
                if self._stops and not self._bookmark_due:
                    raise stopping()
                if self._due:
                    await asyncio.sleep(0)  # other tasks have their turn, even if nothing was sent
                else:
                    await self._notified.wait()
                self._notified.clear()
        finally:
            timer.cancel()

    def stop(self) -> None:
        """Ends the stream with UNAVAILABLE, behind a bookmark of each part, because the server stops."""
        self._stops = True
        self._mark_all()

    def _begin(self, name: str, wire: Wire) -> None:
        def notify() -> None:
            self._due[part] = None
            self._notified.set()

        part = self._part_of(name, notify, wire)
        self.parts.append(part)
        part.begin()
        notify()

    def _mark_all(self) -> None:
        self._bookmark_due = True
        self._due |= dict.fromkeys(self.parts)
        self._notified.set()

    async def _take(self) -> None:
        """Takes records from the parts that are due, and adds them to the message; full messages are sent on the way.

        Raises:
            PolicyError: what the caller may be shown of a part changed after its records were taken, while the client did not read.
        """
        due, self._due = self._due, {}
        mark, self._bookmark_due = self._bookmark_due, False
        for number, part in enumerate(due, 1):
            wire = part.wire
            for piece in part.take():
                if self._size + len(piece) > MESSAGE_BYTES:
                    await self._send()
                    if part.refusal is not None or part.wire is not wire:
                        problem = f"The caller's permissions in {part.name} changed while this watch was not read: resume with its token."
                        raise part.refusal or _unknown(problem)
                self._pieces.append(piece)
                self._size += len(piece)
            if mark and (bookmark := part.bookmark()) is not None:
                if self._size + len(bookmark) > MESSAGE_BYTES:
                    await self._send()
                    bookmark = part.bookmark() or b""  # it says how old the copy is at the moment
                self._pieces.append(bookmark)
                self._size += len(bookmark)
            if part.more:
                self._due[part] = None
            if not number % TURN:
                await self._send()  # permissions may change meanwhile
                await asyncio.sleep(0)

    async def _send(self) -> None:
        """Sends the message unless it is empty, and begins the next one."""
        pieces, self._pieces, self._size = self._pieces, [], 0
        if pieces:
            await self._call.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def learn(self, part: Part, refusal: PolicyError | None, wire: Wire) -> None:
        """Takes the result of a check of the caller's permission for a part.

        A namespace that the caller may not watch, or for which that is not known, sends the status FAILED and nothing else until it is
        permitted again, and then goes on where it stood. The stream ends if the caller may not watch any of them.
        """
        if part.learn(refusal, wire) and refusal is not None and all(_denied(each) for each in self.parts):
            self._call.end(refusal)

    async def close(self) -> None:
        """Closes all parts: gives back their watchers and namespaces. A failure of one is raised after all were closed."""
        failures: list[BaseException] = []
        for begin in range(0, len(self.parts), TURN):
            results = await asyncio.gather(*(part.close() for part in self.parts[begin : begin + TURN]), return_exceptions=True)
            failures += (result for result in results if result is not None)
        if failures:
            raise failures[0]


def _denied(part: Part) -> bool:
    return part.refusal is not None and part.refusal.kind is Kind.PERMISSION_DENIED


def _unknown(problem: str) -> PolicyError:
    return PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, problem)


class WatchStreams:
    """The open streams of a server."""

    def __init__(self, most: int, grants: Grants) -> None:
        """Begins without streams. ``most``: how many may be open; ``grants``: permits them."""
        self._most = most
        self._grants = grants
        self._open: dict[WatchStream, tuple[Call, tuple[Permission, ...]]] = {}
        """The streams with their calls and the permissions that these need."""
        self._closing = TaskSet("watches")
        """The tasks in which ended streams release their watchers and namespaces."""
        self._stops = False
        self._asked: set[Part] = set()
        """The parts for which an authority is being asked."""
        self._asking = TaskSet("the permissions of watches")
        self._checking = RestartedTask("checking the permissions of watches", self._check_permits)

    def __len__(self) -> int:
        return len(self._open)

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
                namespaces at first, or for all of them later; and as ``WatchStream.run``.
        """
        if len(self._open) >= self._most:
            problem = f"{len(self._open)} watches are open, which is the limit: share one, or raise max_watches."
            raise too_much("max_watches", self._most, problem)
        stream = WatchStream(call, part_of, bookmark_seconds)
        self._open[stream] = call, needed
        if self._stops:
            stream.stop()
        if self._grants.roles is not None:
            self._checking.start()
        try:
            all_names, granted = list(names), list[Granted]()
            for at in range(0, len(all_names), _CHECKED):
                some = all_names[at : at + _CHECKED]
                granted += await asyncio.gather(*(self._granted(call, name, needed) for name in some))
            await stream.run(zip(all_names, granted, strict=True))
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
                if part not in self._asked and (of_stream := self._open.get(stream)) is not None:
                    self._check(stream, part, *of_stream)
                if not number % _CHECKED:
                    await asyncio.sleep(0)

    def _check(self, stream: WatchStream, part: Part, call: Call, needed: tuple[Permission, ...]) -> None:
        """Checks whether a caller may watch a namespace; an answer that is not at hand is awaited by another task."""
        try:
            granted = self._grants.of(call.caller, part.name, needed)
        except Exception as error:  # noqa: BLE001 (it becomes a refusal)
            stream.learn(part, _refusal(part.name, error), part.wire)
            return
        if isinstance(granted, frozenset):
            stream.learn(part, None, wire_of(granted))
        else:
            self._asked.add(part)
            self._asking.begin(self._ask(stream, part, granted), "the permissions of a watch")

    async def _ask(self, stream: WatchStream, part: Part, granted: Awaitable[Granted]) -> None:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                stream.learn(part, None, wire_of(await granted))
        except Exception as error:  # noqa: BLE001 (it becomes a refusal)
            stream.learn(part, _refusal(part.name, error), part.wire)
        finally:
            self._asked.discard(part)


def _refusal(namespace: str, error: Exception) -> PolicyError:
    """Returns why a caller may not watch a namespace after a check has failed."""
    if isinstance(error, PolicyError):
        return error
    if isinstance(error, TimeoutError):
        return _unknown(f"The caller's permissions in {namespace} were not known within {ASK_SECONDS:g} s: they are requested again.")
    errors.log_failure("A check of a watch's permissions", error)
    return _unknown(f"The caller's permissions in {namespace} can't be determined; this server's log has the reason.")
