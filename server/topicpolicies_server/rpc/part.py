"""One namespace of a watch: what is told of it, in which state.

=============  ==========================================================  ===================================================
state          what is told on the way into it                             what ends it
=============  ==========================================================  ===================================================
LOADING        status LOADING, or FAILED for each try that failed          the namespace can answer
DISABLED       status DISABLED; a reset, if anything counted; that named   topics are enabled: LOADING
               topics are absent; SYNCED
BEGINNING      a reset, if anything counted and the token does not serve   the place to go on from is found
CATCHING UP    what the history has behind that place                      the history's end: FOLLOWING; a gap in it: BEGINNING
FOLLOWING      status READY, if another one was told; a snapshot or        topics are disabled or enabled, the log is another
               changes; SYNCED, unless it was told; changes                one, changes have left the ring: BEGINNING; the
                                                                           namespace is closed: LOADING
=============  ==========================================================  ===================================================

``_live`` goes through these states; what it tells waits in ``_outbox``, and it goes on when that was taken. While it follows, ``take``
takes straight from the watcher, and interrupts it when the watcher can't go on. In the mode ENTRIES there is no watcher: CATCHING UP never
ends, and SYNCED is told at the history's first end.

Topics whose policies are disabled (``switches``) are left out. A watcher knows nothing of that: its part leaves them out of what it takes.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from topicpolicies.v1 import service_pb2

from ..core.errors import PolicyError
from ..core.names import PolicyKey, Scope
from ..core.reading.watch import Batch, Lagged, Mode, OutOfRange, Replaced, Selection, Token, Watcher
from ..core.reasons import Reason
from ..history.entries import Gap
from ..history.following import Elsewhere, Place, Recorded, Stretch
from ..namespaces.namespace import Namespace, Phase
from ..namespaces.registry import Registry
from . import answers, histories, recorded
from .answers import number
from .switches import Board, Switchboard
from .watches import Watch

NOTHING_READ = Token("", ())
"""The place of who has nothing of a namespace."""
TURN = 64
"""Changes that one namespace may tell before the others have their turn."""
_STRETCH = 256
"""Events of the history that are read at a time."""
_GATHER_SECONDS = 0.05
"""How long events of the history gather before they are read."""
_RETRY_SECONDS = (0.1, 10.0)
"""The first and the longest pause before what failed is tried again."""
_NOT_CONFIRMED = 0
"""The time of a bookmark that says nothing of how old what was told is."""
_FINAL = frozenset({Reason.SHUTTING_DOWN, Reason.TOO_MANY_NAMESPACES})
"""What ends the stream instead."""


class Desk(NamedTuple):
    """What all watches are told from."""

    registry: Registry
    wire: answers.Wire
    """How documents are shown."""
    switchboard: Switchboard | None = None
    """Tells which topics have policies, and when that changes; None: all have."""


class _Interruption(enum.Enum):
    """What ends FOLLOWING."""

    BEHIND = enum.auto()
    REPLACED = enum.auto()
    SWITCHED = enum.auto()
    CLOSED = enum.auto()


class Part:
    """One namespace of a stream."""

    def __init__(self, desk: Desk, name: str, watch: Watch, wake: Callable[[], None]) -> None:
        """Begins nothing yet.

        Args:
            desk: what is told from.
            name: ``tenant/namespace``.
            watch: what is watched.
            wake: called when there is something to take.
        """
        self.name = name
        self.more = False
        """Whether there is more to take at once."""
        self._desk = desk
        self._watch = watch
        self._selection = Selection(watch.topics[name], watch.scopes)
        self._wake_stream = wake
        self._token = watch.resume.get(name)
        """Where to go on, while there is no watcher; None: at the beginning."""
        self._counts = self._token is not None
        """Whether the reader may have something of this namespace that counts."""
        self._synced = False
        self._behind = watch.mode is Mode.ENTRIES
        """Whether there is more in the history that is to be told: until that was told nothing is confirmed."""
        self._disabled = False
        self._from_beginning = watch.from_beginning and self._token is None
        self._outbox: deque[bytes] = deque()
        self._stirred = asyncio.Event()
        """Set when there may be something for ``_live``."""
        self._namespace: Namespace | None = None
        self._watcher: Watcher | None = None
        self._interrupted: asyncio.Future[_Interruption] | None = None
        self._board: Board | None = None
        self._switches = 0
        """Those of the board that were there when it was looked at last."""
        self._held: Batch | None = None
        """What was taken, and waits until it is known which of its topics are disabled."""
        self._looking: asyncio.Task[None] | None = None
        self._failure: PolicyError | None = None
        """Why the namespace could not be reached when it was tried last."""
        self._said: tuple[service_pb2.NamespaceState.ValueType, Reason | None, str] | None = None
        """The status that was told last."""
        self._fault: PolicyError | None = None
        """Ends the stream."""
        self._life: asyncio.Task[None] | None = None

    # --- what the stream asks -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begins to tell."""
        self._life = asyncio.get_running_loop().create_task(self._live(), name=f"watch of {self.name}")
        self._life.add_done_callback(lambda _: self._wake_stream())

    @property
    def synced(self) -> bool:
        """Whether SYNCED was told, and nothing that undoes it."""
        return self._synced and not self._outbox

    def bookmark(self) -> bytes | None:
        """A TIMER bookmark; None while the namespace is not followed."""
        token = self._place()
        if token is None or not self._synced or self._outbox or self._behind or not self._is_followed():
            return None
        return answers.bookmark(self.name, service_pb2.BOOKMARK_KIND_TIMER, token, self._confirmed_ms())

    def parting(self) -> bytes | None:
        """A bookmark for a reader that has to go on elsewhere; None where it has no place."""
        token = self._place()
        if token is None or not self._synced or self._outbox:
            return None
        return answers.bookmark(self.name, service_pb2.BOOKMARK_KIND_TIMER, token, self._confirmed_ms())

    def take(self) -> Iterator[bytes]:
        """The next records.

        Raises:
            PolicyError: the stream has to end.
        """
        self.more = False
        if self._fault is not None:
            raise self._fault
        if self._life is not None and self._life.done():
            self._life.result()  # it failed in a way that nobody thought of: so does the stream
        status = self._status()
        if status is not None:
            yield status
        while self._outbox:
            yield self._outbox.popleft()
        self._stirred.set()
        if self._watcher is None:
            return
        if self._namespace is not None and self._namespace.phase is Phase.CLOSED:
            self._interrupt(_Interruption.CLOSED)
            return
        if self._board is not None and self._board.concerns(self._switches, self._selection.topics):
            self._interrupt(_Interruption.SWITCHED)
            return
        try:
            batch = self._taken(self._watcher)
        except Lagged:
            self._interrupt(_Interruption.BEHIND)
            return
        except Replaced:
            self._interrupt(_Interruption.REPLACED)
            return
        if batch is not None:
            yield from self._records(batch)

    async def close(self) -> None:
        """Gives everything back."""
        tasks = [task for task in (self._life, self._looking) if task is not None]
        for task in tasks:
            task.cancel()
        if self._desk.switchboard is not None and self._board is not None:
            self._desk.switchboard.leave(self.name, self)
        self._leave()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- its life ------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        pause, longest = _RETRY_SECONDS
        while True:
            try:
                if self._watch.mode is Mode.ENTRIES:
                    await self._copy()
                await self._load()
                if self._board is not None and self._board.everything(self._selection.topics):
                    await self._rest()
                else:
                    await self._follow()
                pause = _RETRY_SECONDS[0]
            except PolicyError as error:
                self._leave()
                if error.reason in _FINAL or (error.reason is Reason.HISTORY_OFF):
                    self._fault = error
                    self._wake_stream()
                    return
                self._failure = error
                self._wake_stream()
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)

    async def _load(self) -> None:
        """LOADING: returns when the namespace can answer, and it is known which topics are disabled.

        Raises:
            PolicyError: it can't.
        """
        switchboard, topics = self._desk.switchboard, self._selection.topics
        if switchboard is not None:
            if self._board is None:
                self._board = switchboard.join(self.name, self, self._stir)
            await self._board.look(topics or ())
            if self._look_away():
                return
        self._namespace = namespace = self._desk.registry.get(self.name)
        self._wake_stream()
        await namespace.ready()
        self._failure = None
        if self._board is not None and topics is None:
            heads, _, _ = await namespace.page(frozenset(Scope), None, namespace.documents)
            await self._board.look({head.key.topic for head in heads})
            self._look_away()

    def _look_away(self) -> bool:
        """Whether everything is disabled; what is switched from now on is noticed."""
        assert self._board is not None, "looked at"
        self._switches = len(self._board.switched)
        return self._board.everything(self._selection.topics)

    async def _rest(self) -> None:
        """DISABLED: returns when that has changed."""
        assert self._board is not None, "looked at"
        self._leave()
        self._failure = None
        self._disabled = True
        self._wake_stream()
        self._reset(Reason.TOPIC_POLICIES_SWITCHED, f"The topic policies of what is watched of {self.name} were disabled.")
        for key in self._selection.keys() or ():
            self._tell(answers.disabled_record(self.name, key))
        self._sync(NOTHING_READ)
        while self._board.everything(self._selection.topics):
            await self._stir_awaited()
        self._disabled = False
        self._reset(Reason.TOPIC_POLICIES_SWITCHED, f"Topics of {self.name} had their policies enabled.")

    async def _follow(self) -> None:
        """BEGINNING, CATCHING UP and FOLLOWING; returns when it has to begin anew."""
        namespace = self._namespace
        assert namespace is not None, "loaded"
        mark = self._board.mark(self._selection.topics) if self._board is not None else ""
        if self._token is not None and self._token.left_out != mark:
            self._reset(Reason.TOPIC_POLICIES_SWITCHED, f"Topics of {self.name} had their policies disabled or enabled.")
        if self._from_beginning:
            self._token = await self._catch_up(self._token or Token(namespace.log_identity, (), mark), strict=False)
            self._from_beginning = False
        watcher = await self._watcher_of(namespace, mark)
        self._interrupted = asyncio.get_running_loop().create_future()
        self._watcher = watcher
        self._wake_stream()
        why = await self._interrupted
        self._token = self._place()
        self._leave()
        if why is _Interruption.REPLACED:
            self._reset(Reason.LOG_REPLACED, f"The change log of {self.name} is another one now.")
        elif why is _Interruption.SWITCHED or self._token is None:
            self._reset(Reason.TOPIC_POLICIES_SWITCHED, f"Topics of {self.name} had their policies disabled or enabled.")

    async def _watcher_of(self, namespace: Namespace, mark: str) -> Watcher:
        """A watcher that goes on from the token, or begins anew."""
        while True:
            try:
                return await namespace.watch(self._selection, self._watch.mode, self._token, self._wake_stream)
            except OutOfRange as error:
                history = self._desk.registry.history
                assert self._token is not None, "a snapshot is always to be had"
                try:
                    every = self._watch.mode is Mode.EVERY
                    if not (error.older and every and history is not None):
                        raise _Gone(Reason.EVENTS_GONE if error.older and every else Reason.TOKEN_OUT_OF_RANGE, str(error))
                    self._token = await self._catch_up(self._token._replace(left_out=mark), strict=True)
                except _Gone as gone:
                    self._reset(gone.reason, f"The watch of {self.name} can't go on from its token: {gone}.")

    async def _catch_up(self, token: Token, *, strict: bool) -> Token:
        """CATCHING UP: tells the changes that the history has behind a place. Returns where it ends.

        Args:
            token: the place.
            strict: whether no change may be missing; if not, gaps are told.

        Raises:
            _Gone: changes are missing.
            PolicyError: the history can't be read.
        """
        place = Place(token.log, token.positions)
        self._behind = True
        try:
            while True:
                try:
                    stretch = await self._stretch(place)
                except Elsewhere as error:
                    if strict:
                        raise _Gone(Reason.EVENTS_GONE, str(error)) from None
                    return token  # nothing of this log was recorded yet
                if strict and not stretch.whole:
                    raise _Gone(Reason.EVENTS_GONE, "events between it and now are gone, and the history does not have them")
                if stretch.place.log != place.log:
                    return token  # the namespace is about to follow another log
                await self._look_at({piece.entry.topic for piece in stretch.pieces if isinstance(piece, Recorded)} - {""})
                for piece in stretch.pieces:
                    self._tell_piece(piece)
                place = stretch.place
                self._token = token = token._replace(positions=place.positions)
                await self._emptied()
                if not stretch.more:
                    return token
        finally:
            self._behind = False

    def _tell_piece(self, piece: Recorded | object) -> None:
        """A piece of the history, as a change that this watch wants."""
        if not isinstance(piece, Recorded):
            self._tell(answers.event_record(service_pb2.WatchEvent(namespace=self.name, gap=recorded.gap(piece))))  # type: ignore[arg-type]
            return
        entry = piece.entry
        if not recorded.changed(entry) or not self._selection.includes(PolicyKey(entry.topic, Scope(entry.scope))):
            return
        if self._board is None or not self._board.disabled(entry.topic):
            change = recorded.change(entry, piece.partition, with_before=self._watch.include_previous)
            self._tell(answers.watched(self.name, _CHANGE, change))

    async def _copy(self) -> None:
        """The mode ENTRIES: tells what the history has, and what comes into it, for ever.

        Raises:
            PolicyError: the history can't be read.
        """
        history = histories.of(self._desk.registry)
        place = Place(self._token.log, self._token.positions) if self._token is not None else Place("", ())
        log = place.log
        """Of which the reader takes what it is told."""
        gaps: set[Gap] = set()
        """Those that were told last: one behind all events is found again until there is an event behind it."""
        self._namespace = self._desk.registry.get(self.name)
        self._namespace.observe(self)
        history.listen(self.name, self._stir)
        try:
            while True:
                ready = self._namespace.phase is Phase.READY
                self._stirred.clear()
                if ready and self._namespace.is_beyond(Token(place.log, place.positions)):
                    self._reset(Reason.TOKEN_OUT_OF_RANGE, f"The watch of {self.name} can't go on from its token: it is ahead of the log.")
                    place, log = Place("", ()), ""
                try:
                    stretch = await self._stretch(place)
                except Elsewhere as error:
                    if not ready:  # nobody knows yet which log it is
                        await self._namespace.ready()
                        continue
                    if place.log != self._namespace.log_identity:
                        self._reset(Reason.TOKEN_OUT_OF_RANGE, f"The watch of {self.name} can't go on from its token: {error}.")
                        place, log = Place("", ()), ""
                        continue
                    stretch = Stretch([], place, more=False, whole=True, log=place.log)  # nothing of it was recorded yet
                if stretch.log != log:
                    log = stretch.log
                    # Positions that follow are of this log: the reader folds them into a token of it.
                    mark = answers.bookmark(self.name, service_pb2.BOOKMARK_KIND_TIMER, Token(log, ()), _NOT_CONFIRMED)
                    self._tell(mark)
                for piece in stretch.pieces:
                    if piece not in gaps:
                        self._tell_entry(piece)
                gaps = {piece for piece in stretch.pieces if isinstance(piece, Gap)}
                place = stretch.place
                self._token = Token(place.log, place.positions)
                if not stretch.more and ready and not self._synced:
                    self._sync(self._token)
                await self._emptied()
                if self._namespace.phase is Phase.CLOSED:
                    self._namespace = self._desk.registry.get(self.name)
                    self._namespace.observe(self)
                if not stretch.more:
                    await self._something_new()
        finally:
            history.unlisten(self.name, self._stir)
            self._namespace.unobserve(self)

    async def _something_new(self) -> None:
        assert self._namespace is not None, "followed"
        if self._namespace.phase is not Phase.READY:
            try:
                await self._namespace.ready()
            except PolicyError:
                await asyncio.sleep(_RETRY_SECONDS[0])  # its status says why
            return
        self._behind = False
        await self._stir_awaited()
        self._behind = True
        await asyncio.sleep(_GATHER_SECONDS)

    def _tell_entry(self, piece: Recorded | object) -> None:
        if not isinstance(piece, Recorded):
            self._tell_piece(piece)
            return
        entry = piece.entry
        topics = self._selection.topics
        if entry.topic and not self._selection.includes(PolicyKey(entry.topic, Scope(entry.scope))):
            return
        if entry.topic or (topics is None and len(self._selection.scopes) == len(Scope)):  # nobody knows whose an unreadable one is
            self._tell(answers.watched(self.name, _ENTRY, recorded.entry(entry, piece.partition)))

    async def _stretch(self, place: Place) -> Stretch:
        return await histories.of(self._desk.registry).stretch(self.name, place, _STRETCH)

    # --- what it tells --------------------------------------------------------------------------------------------

    def _tell(self, record: bytes) -> None:
        self._outbox.append(record)
        self._counts = True
        self._wake_stream()

    def _reset(self, reason: Reason, message: str) -> None:
        """The reader begins anew, if it has anything that counts."""
        self._token = None
        self._synced = False
        if self._counts:
            follows = "What the history has follows" if self._watch.mode is Mode.ENTRIES else "A snapshot follows"
            self._tell(answers.reset(self.name, reason, f"{message} {follows}."))
            self._counts = False

    def _sync(self, token: Token) -> None:
        self._tell(answers.bookmark(self.name, service_pb2.BOOKMARK_KIND_SYNCED, token, self._confirmed_ms()))
        self._synced = True
        self._token = token

    async def _emptied(self) -> None:
        """Waits until what was told has been taken."""
        while self._outbox:
            await self._stir_awaited()

    def _stir(self) -> None:
        self._stirred.set()
        self._wake_stream()

    async def _stir_awaited(self) -> None:
        self._stirred.clear()
        await self._stirred.wait()

    def _records(self, batch: Batch) -> Iterator[bytes]:
        board, wire, with_before = self._board, self._desk.wire, self._watch.include_previous
        for change in batch.changes:
            if board is None or not board.disabled(change.key.topic):
                self._counts = True
                yield answers.change_record(self.name, change, wire, with_before=with_before)
            elif not self._synced and self._selection.topics is not None:
                self._counts = True
                yield answers.disabled_record(self.name, change.key)
        if batch.synced and not self._synced:
            self._synced = self._counts = True
            token = self._place()
            assert token is not None, "synced"
            yield answers.bookmark(self.name, service_pb2.BOOKMARK_KIND_SYNCED, token, self._confirmed_ms())
        self.more = batch.more

    def _taken(self, watcher: Watcher) -> Batch | None:
        """What is to be told next; None while it is not known which of its topics are disabled.

        Raises:
            Lagged: the watcher is behind.
            Replaced: the log is another one.
        """
        board, batch = self._board, self._held
        if self._looking is not None and not self._looking.done():
            return None
        self._held = None
        # What came while a batch was held has woken the stream already, in vain.
        batch = watcher.take(TURN) if batch is None else batch._replace(more=True)
        if board is None:
            return batch
        unknown = {change.key.topic for change in batch.changes if not board.knows(change.key.topic)}
        if not unknown:
            return batch
        self._held = batch
        self._looking = asyncio.create_task(self._look_at(unknown))
        return None

    async def _look_at(self, topics: set[str]) -> None:
        """Looks which of some topics are disabled, however long that takes."""
        if self._board is None:
            return
        pause, longest = _RETRY_SECONDS
        while True:
            try:
                await self._board.look({topic for topic in topics if not self._board.knows(topic)})
            except PolicyError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
                continue
            self._wake_stream()
            return

    def _status(self) -> bytes | None:
        """The namespace's state, each time that it is another one. A namespace that is ready from the start does not say so."""
        state, reason, message = now = self._state()
        if now == self._said or (self._said is None and state == service_pb2.NAMESPACE_STATE_READY):
            return None
        self._said = now
        return answers.namespace_status(self.name, state, reason, message)

    def _state(self) -> tuple[service_pb2.NamespaceState.ValueType, Reason | None, str]:
        if self._disabled:
            problem = f"The topic policies of what is watched of {self.name} are disabled."
            return service_pb2.NAMESPACE_STATE_DISABLED, Reason.TOPIC_POLICIES_DISABLED, problem
        if self._failure is not None and self._watcher is None:
            return service_pb2.NAMESPACE_STATE_FAILED, self._failure.reason, self._failure.message
        namespace = self._namespace
        if namespace is None:
            return service_pb2.NAMESPACE_STATE_READY, None, ""  # nothing is known yet
        if namespace.phase is Phase.READY:
            return service_pb2.NAMESPACE_STATE_READY, None, ""
        if namespace.phase is Phase.LOADING:
            return service_pb2.NAMESPACE_STATE_LOADING, namespace.cause, namespace.problem or f"{self.name} is being read."
        return service_pb2.NAMESPACE_STATE_FAILED, namespace.cause, namespace.problem

    # --- where it stands ------------------------------------------------------------------------------------------

    def _place(self) -> Token | None:
        """Where the reader stands; None while there is no such place."""
        if self._watcher is None:
            return self._token
        token = self._watcher.token if self._held is None else None
        if token is None or self._board is None:
            return token
        return token._replace(left_out=self._board.mark(self._selection.topics))

    def _is_followed(self) -> bool:
        return self._disabled or (self._namespace is not None and self._namespace.phase is Phase.READY)

    def _confirmed_ms(self) -> int:
        if self._disabled or self._namespace is None:
            return self._desk.registry.now()
        return self._namespace.confirmed_ms

    def _interrupt(self, why: _Interruption) -> None:
        if self._interrupted is not None and not self._interrupted.done():
            self._interrupted.set_result(why)

    def _leave(self) -> None:
        """Gives the watcher back."""
        if self._watcher is not None and self._namespace is not None:
            self._namespace.unwatch(self._watcher)
        self._watcher = self._held = self._interrupted = None


class _Gone(Exception):
    """The reader can't go on from its token."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason = reason


_CHANGE = number(service_pb2.WatchEvent, "change")
_ENTRY = number(service_pb2.WatchEvent, "entry")
