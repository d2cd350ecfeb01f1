"""The streams of WatchPolicies and WatchHistory: any number of namespaces, each a part of its own (``part``), sent in batches.

The stream pulls: it takes records from its parts only when the last message has been written, so a client that does not read holds up no
other one. All records that are there at that moment go into one message, bounded in bytes; a message never waits for more records. Only
parts that have signalled that they may have something are looked at: a change in one of a thousand namespaces costs the same as in one of
two.

The callers' permissions are checked every second while their streams are open, those of all streams by one task. How long a stream may go
on after a permission was withdrawn: until that is noticed (a file: ``files.LOOK_SECONDS``; brokers: ``authorization_cache_seconds``), plus
``LOOK_SECONDS`` and ``ASK_SECONDS``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator

from ...access import Granted, Permission
from ...access.grants import Grants, known
from ...core.errors import Kind, PolicyError, too_much
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
UNREAD_SECONDS = 10.0
"""Seconds for which a stream whose caller may watch nothing any more waits for the client to read; then the stream is cancelled."""
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

    def __init__(
        self, call: Call, grants: Grants, needed: tuple[Permission, ...], names: Iterable[str], part_of: PartOf, bookmark_seconds: float
    ) -> None:
        """Does nothing before ``run``. ``needed``: the permissions that the caller needs in each namespace of ``names``."""
        self._call = call
        self._grants = grants
        self._needed = needed
        self._names = tuple(names)
        self._part_of = part_of
        self._interval = bookmark_seconds
        self._stops = False
        self._bookmark_due = False
        self._signalled: dict[Part, None] = {}
        """The parts that have signalled since they were last taken from, in the order of their signals."""
        self._woken = asyncio.Event()
        self._parts: list[Part] = []
        self._pieces: list[bytes] = []
        """The message that is being composed."""
        self._size = 0
        self._checked = False
        """Whether permissions are checked: not before all parts have begun, nor after the end."""
        self._asks = False
        self._reconsidered = True
        """Whether permissions may have changed since ``run`` last looked at them."""

    @property
    def waiting(self) -> int:
        """How many records wait in the parts."""
        return sum(part.waiting for part in self._parts)

    def stop(self) -> None:
        """Ends the stream with UNAVAILABLE, after a last bookmark of each part, because the server stops."""
        self._stops = True
        self.signal_all()

    async def run(self) -> None:
        """Writes serialized messages without end.

        Raises:
            PolicyError: UNAVAILABLE, the server stops; RESOURCE_EXHAUSTED, the server has too many namespaces; PERMISSION_DENIED, the
                caller lacks a permission for one of the namespaces at first, or for all of them later; and what ``_take`` raises.
        """
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._interval, self._is_due)
        try:
            await self._begin()
            self._checked = True
            while True:
                more = await self._take()
                if self._stops and not more:
                    await self._mark(lambda part: part.last_bookmark())
                    await self._send()
                    raise PolicyError(
                        Kind.UNAVAILABLE,
                        Reason.SHUTTING_DOWN,
                        "The server is stopping: resume with its tokens at another server, or here later.",
                    )
                if self._bookmark_due:
                    self._bookmark_due = False
                    await self._mark(lambda part: part.bookmark())
                    timer = loop.call_later(self._interval, self._is_due)
                await self._send()
                if self._reconsidered:
                    self._reconsidered = False
                    if (denied := self._denied()) is not None:
                        raise denied
                if self._signalled:
                    await asyncio.sleep(0)  # other tasks have their turn, even if nothing was sent
                else:
                    await self._woken.wait()
                self._woken.clear()
        finally:
            timer.cancel()
            self._checked = False

    async def _begin(self) -> None:
        granted: list[Granted] = []
        for at in range(0, len(self._names), _CHECKED):
            granted += await asyncio.gather(*(self._permit(name) for name in self._names[at : at + _CHECKED]))
        for number, (name, permissions) in enumerate(zip(self._names, granted, strict=True), 1):
            part = self._part(name, wire_of(permissions))
            self._parts.append(part)
            part.begin()
            if not number % TURN:
                await asyncio.sleep(0)
        self.signal_all()

    def _part(self, name: str, wire: Wire) -> Part:
        def wake() -> None:
            self._signalled[part] = None
            self._woken.set()

        part = self._part_of(name, wake, wire)
        return part

    # --- permissions ------------------------------------------------------------------------------------------------

    async def _permit(self, name: str) -> Granted:
        return await known(self._grants.of(self._call.caller, name, self._needed))

    def check_permits(self, asking: TaskSet) -> Iterator[None]:
        """Checks what the caller may watch, a namespace after each step; answers that are not at hand are awaited in ``asking``.

        A namespace that it may not watch, or for which that is not known, sends the status FAILED and nothing else until it is permitted
        again, and then goes on where it stood. The stream ends if the caller may not watch any of them (``_denied``). A client that does
        not read can't receive that status, so its stream is cancelled once a message has waited for ``UNREAD_SECONDS``.
        """
        late: list[Awaitable[None]] = []
        for part in self._parts:
            if self._asks or not self._checked:
                return
            try:
                granted = self._grants.of(self._call.caller, part.name, self._needed)
                if isinstance(granted, frozenset):
                    self._reconsidered |= part.learn(None, wire_of(granted))
                else:
                    late.append(self._ask(part, granted))
            except Exception as error:  # noqa: BLE001 (it becomes a refusal)
                self._reconsidered |= part.learn(_refusal(part.name, error), part.wire)
            yield
        self._reconsider()
        if late:
            self._asks = True
            asking.begin(self._await_permits(late), "the permissions of a watch")

    async def _await_permits(self, late: Iterable[Awaitable[None]]) -> None:
        try:
            await asyncio.gather(*late)
        finally:
            self._asks = False
        self._reconsider()

    async def _ask(self, part: Part, granted: Awaitable[Granted]) -> None:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                self._reconsidered |= part.learn(None, wire_of(await granted))
        except Exception as error:  # noqa: BLE001 (it becomes a refusal)
            self._reconsidered |= part.learn(_refusal(part.name, error), part.wire)

    def _reconsider(self) -> None:
        if not self._reconsidered or not self._checked:
            return
        self.signal_all()
        since = self._call.unread_since
        if since is not None and asyncio.get_running_loop().time() >= since + UNREAD_SECONDS and self._denied() is not None:
            self._call.cancel()

    def _denied(self) -> PolicyError | None:
        """Returns PERMISSION_DENIED if the caller may watch none of the namespaces any more; None: it may watch one."""
        denied = [part.refusal for part in self._parts if part.refusal is not None and part.refusal.kind is Kind.PERMISSION_DENIED]
        return denied[0] if denied and len(denied) == len(self._parts) else None

    # --- messages ---------------------------------------------------------------------------------------------------

    async def _take(self) -> bool:
        """Takes records from the parts that have signalled, and adds them to the message; full messages are sent on the way.

        Returns whether some part has more that can be taken at once.

        Raises:
            PolicyError: the permission for records that were taken ended while the client did not read.
        """
        more = False
        signalled, self._signalled = self._signalled, {}
        for number, part in enumerate(signalled, 1):
            wire = part.wire
            for piece in part.take():
                if not self._has_room(piece):
                    await self._send()
                    _check(part, wire)
                self._add(piece)
            if part.more:
                more = True
                self._signalled[part] = None
            if not number % TURN:
                await self._pause()
        return more

    async def _mark(self, bookmark: Callable[[Part], bytes | None]) -> None:
        """Adds the bookmarks of all parts that have one to the message; full messages are sent on the way."""
        for number, part in enumerate(self._parts, 1):
            mark = bookmark(part)
            if mark is not None and not self._has_room(mark):
                await self._send()
                mark = bookmark(part)  # the part may have none any more
            if mark is not None:
                self._add(mark)
            if not number % TURN:
                await self._pause()

    def _has_room(self, piece: bytes) -> bool:
        return not self._size or self._size + len(piece) <= MESSAGE_BYTES

    def _add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)

    async def _send(self) -> None:
        """Sends the message unless it is empty, and begins the next one."""
        pieces, self._pieces, self._size = self._pieces, [], 0
        if pieces:
            await self._call.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    async def _pause(self) -> None:
        """Gives other tasks their turn. The message is sent first, because permissions may change meanwhile."""
        await self._send()
        await asyncio.sleep(0)

    def signal_all(self) -> None:
        """Has every part looked at, and wakes the stream."""
        self._signalled |= dict.fromkeys(self._parts)
        self._woken.set()

    def _is_due(self) -> None:
        self._bookmark_due = True
        self.signal_all()

    async def close(self) -> None:
        """Closes all parts: gives back their watchers and namespaces. A failure of one is raised after all were closed."""
        failures: list[BaseException] = []
        for begin in range(0, len(self._parts), TURN):
            results = await asyncio.gather(*(part.close() for part in self._parts[begin : begin + TURN]), return_exceptions=True)
            failures += (result for result in results if result is not None)
        if failures:
            raise failures[0]


def _check(part: Part, wire: Wire) -> None:
    """Checks that records which were taken, serialized with ``wire``, may still be sent after the client did not read for a while.

    Raises:
        PolicyError: the caller may not watch the namespace any more, or its documents are shown to it in another way by now.
    """
    if part.refusal is not None:
        raise part.refusal
    if part.wire is not wire:
        raise _unknown(
            f"The caller's permission to see secrets in {part.name} changed while this watch was not read: resume with its token."
        )


def _refusal(namespace: str, error: Exception) -> PolicyError:
    """Returns why a caller may not watch a namespace after a check has failed."""
    if isinstance(error, PolicyError):
        return error
    if isinstance(error, TimeoutError):
        return _unknown(f"The caller's permissions in {namespace} were not known within {ASK_SECONDS:g} s: they are requested again.")
    errors.log_failure("A check of a watch's permissions", error)
    return _unknown(f"The caller's permissions in {namespace} can't be determined; this server's log has the reason.")


def _unknown(problem: str) -> PolicyError:
    return PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, problem)


class WatchStreams:
    """The open streams of a server."""

    def __init__(self, most: int, grants: Grants) -> None:
        """Begins without streams. ``most``: how many may be open; ``grants``: permits them."""
        self._most = most
        self._grants = grants
        self._open: dict[WatchStream, None] = {}
        self._stops = False
        self._closing = TaskSet("watches")
        """The tasks in which ended streams release their watchers and namespaces."""
        self._asking = TaskSet("the permissions of watches")
        self._checking = RestartedTask("checking the permissions of watches", self._check_permits)

    def __len__(self) -> int:
        return len(self._open)

    def records(self) -> list[int]:
        """Returns, for each stream, how many records wait in it. Safe to call from any thread."""
        return [stream.waiting for stream in list(self._open)]

    def stop(self) -> None:
        """Ends every stream with UNAVAILABLE after a last bookmark, and new ones at once."""
        self._stops = True
        for stream in self._open:
            stream.stop()

    async def closed(self) -> None:
        """Returns when every ended stream has released its watchers and namespaces."""
        self._checking.cancel()
        await self._asking.close()
        await self._closing.close(cancel=False)

    async def _check_permits(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            checks = (each for stream in list(self._open) for each in stream.check_permits(self._asking))
            for number, _ in enumerate(checks, 1):
                if not number % _CHECKED:
                    await asyncio.sleep(0)

    async def run(self, call: Call, needed: tuple[Permission, ...], names: Iterable[str], part_of: PartOf, bookmark_seconds: float) -> None:
        """Serves one stream, until the caller ends it. The arguments are those of ``WatchStream``.

        Raises:
            PolicyError: RESOURCE_EXHAUSTED, too many streams are open; and as ``WatchStream.run``.
        """
        if len(self._open) >= self._most:
            problem = f"{len(self._open)} watches are open, which is the limit: share one, or raise max_watches."
            raise too_much("max_watches", self._most, problem)
        stream = WatchStream(call, self._grants, needed, names, part_of, bookmark_seconds)
        self._open[stream] = None
        if self._stops:
            stream.stop()
        if self._grants.roles is not None:
            self._checking.start()
        try:
            await stream.run()
        finally:
            self._open.pop(stream, None)
            if not self._open:
                self._checking.cancel()
            closing = self._closing.begin(stream.close(), "releasing the source of a stream")
            await asyncio.shield(closing)  # a cancellation of the call now must not cancel the release
