"""A part: one namespace of a watch. It goes through its stages (``stages``), and the stream takes records from it.

The task ``_live`` goes through the stages. Records that it makes wait in the outbox, and it goes on when the stream has taken them. In the
stage FOLLOWING, ``take`` takes changes directly from the hub's watcher (``Taking``); when the watcher can't go on, ``take`` interrupts the
stage, and ``_live`` loads the namespace again. A failure is sent as a status and retried; only what concerns the whole stream ends it.

Topics that the watch names and whose policies are disabled (``cluster/disabled``) are absent for it. While the caller lacks the
permission (``authorizations``), nothing is taken but a status; once it is granted again, the part goes on where it stood.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ...cluster.disabled import Disabled, DisabledWatching
from ...core.errors import PolicyError
from ...core.names import PolicyKey, Scope
from ...core.reading.watch import Batch, Lagged, Mode, OutOfRange, Replaced, Selection, Token, Watcher
from ...core.reasons import Reason
from ...history.queries import Recorded, UnknownLog
from ...namespaces.namespace import Namespace, Phase
from ...namespaces.registry import Registry
from .. import answers, histories
from ..resume_tokens import NOTHING_READ
from . import events
from .authorizations import Authorization
from .outbox import Gone, Outbox, RetriedPart
from .requests import Watch
from .stages import Interruption, Stage, StageEvent, after, failed_status, status_of

TURN = 256
"""Changes that are taken from one namespace before the stream looks at its other ones. A message with so many usual changes fits into
HTTP/2's initial window, so it is sent while the client still handles the message before; a busy client has to wait for longer ones."""
_STRETCH = 256
"""The most events that are read from the history at a time."""


class WatchResources(NamedTuple):
    """What all watches of a server share."""

    registry: Registry
    wire: answers.Wire
    """Serializes documents, unless an authorization decides that."""
    disabled: DisabledWatching | None = None
    """Notifies parts of what is disabled by a property; None: nothing can be."""


class Taking:
    """The source of a part in the stage FOLLOWING."""

    def __init__(self, namespace: Namespace, watcher: Watcher, mark: str) -> None:
        """Takes nothing before ``take``.

        Args:
            namespace: the namespace of the watcher.
            watcher: what changes are taken from; it is given back by ``close``.
            mark: names the selected topics that are left out (``Disabled.digest``).
        """
        self.interrupted: asyncio.Future[Interruption] = asyncio.get_running_loop().create_future()
        """Done when nothing more can be taken: its result says why; an exception, if what was taken could not be serialized."""
        self._complete_as_of_ms = namespace.complete_as_of_ms
        self._namespace = namespace
        self._watcher = watcher
        self._mark = mark
        self._unsent: Batch | None = None
        """The batch that could not be serialized."""

    def take(self) -> Batch | None:
        """Takes the next batch. None: nothing more can be taken, and ``interrupted`` says why."""
        if self.interrupted.done():
            return None
        if self._namespace.phase is Phase.CLOSED:
            self.interrupt(Interruption.CLOSED)
            return None
        try:
            return self._watcher.take(TURN)
        except Lagged:
            self.interrupt(Interruption.BEHIND)
        except Replaced:
            self.interrupt(Interruption.REPLACED)
        return None

    def interrupt(self, why: Interruption) -> None:
        """Interrupts, unless that was done."""
        if not self.interrupted.done():
            self.interrupted.set_result(why)

    def fail(self, batch: Batch, error: Exception) -> None:
        """Interrupts, because a batch could not be serialized."""
        self._unsent = batch
        self.interrupted.set_exception(error)

    @property
    def complete_as_of_ms(self) -> int:
        """As of when every change has been taken, in milliseconds since 1970; at first, the time of what the watcher begins with."""
        if self._unsent is None and self._watcher.has_all:
            self._complete_as_of_ms = self._namespace.complete_as_of_ms
        return self._complete_as_of_ms

    @property
    def token(self) -> Token | None:
        """The token of what was taken; None while there is none, as during a snapshot."""
        return self.marked(self._unsent.stood if self._unsent is not None else self._watcher.token)

    @property
    def place(self) -> Token | None:
        """From where the part goes on when this has ended; None: from the beginning."""
        return self.marked(self._unsent.place if self._unsent is not None else self._watcher.place)

    def close(self) -> None:
        """Gives the watcher back."""
        self._namespace.unwatch(self._watcher)

    def marked(self, token: Token | None) -> Token | None:
        """Returns the token with the topics that are left out."""
        return token._replace(left_out=self._mark) if token is not None and self._mark else token


class Part(RetriedPart):
    """One namespace of a stream."""

    def __init__(
        self, resources: WatchResources, watch: Watch, name: str, wake: Callable[[], None], authorization: Authorization | None = None
    ) -> None:
        """Does nothing before ``begin``.

        Args:
            resources: what all watches of the server share.
            watch: the request of the stream.
            name: ``tenant/namespace``.
            wake: called when there may be something to take.
            authorization: the caller's permission in this namespace; None: no permission is checked.
        """
        super().__init__(name, "the watch of", wake, authorization or Authorization(resources.wire))
        self.stage = Stage.LOADING
        self._resources = resources
        self._watch = watch
        self._selection = Selection(watch.topics[name], watch.scopes)
        self.outbox = Outbox(name, watch.resume.get(name), wake)
        self._disabled = Disabled()
        """What is disabled of the selection."""
        self._switched: asyncio.Event | None = None
        """Set when that has changed; None until the part was DISABLED for the first time."""
        self._namespace: Namespace | None = None
        self._taking: Taking | None = None
        self._taken_ms = 0
        """As of when every change had been taken, when that was known last; in milliseconds since 1970; 0: it was never known."""

    # --- called by the stream -----------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many records wait in the outbox. Changes do not: they are taken from the namespace when there is room."""
        return len(self.outbox)

    @property
    def synced(self) -> bool:
        """Whether SYNCED was sent without a reset since, the outbox is empty, and the caller may watch the namespace."""
        return self.outbox.synced and not self.outbox and self.refusal is None

    def bookmark(self) -> bytes | None:
        """Returns a bookmark; None while the namespace is not followed, its history is still being read, or SYNCED was not sent."""
        return self.last_bookmark() if self._is_followed() and self.stage is not Stage.RECALLING else None

    def last_bookmark(self) -> bytes | None:
        """Returns a last bookmark for a client that will resume elsewhere; None if the part is not synced or has no token."""
        token = self._place()
        if token is None or not self.synced:
            return None
        return self._bookmark(token, synced=False)

    def take(self) -> list[bytes]:
        """Takes the next records; each element is one serialized record, or several joined.

        Raises:
            PolicyError: the stream has to end.
        """
        self.more = False
        if self._fault is not None:
            raise self._fault
        if (refusal := self.authorization.refusal) is not None:
            status = self.outbox.status(failed_status(refusal), self._place())
            return [] if status is None else [status]
        now, taken = status_of(self.name, self.stage, self._problem(), self._namespace), []
        if now != self.outbox.told and (status := self.outbox.status(now, self._place())) is not None:
            taken.append(status)
        taken += self.outbox.take()
        if self._taking is not None and (batch := self._taking.take()) is not None:
            try:
                taken += self._records(self._taking, batch)
            except Exception as error:  # noqa: BLE001 (the task that awaits ``interrupted`` has it)
                self._taking.fail(batch, error)
        return taken

    async def close(self) -> None:
        """Stops the task, and gives back the watcher."""
        self._leave()
        await super().close()
        self._leave()  # gives back a watcher that the task took while it was being stopped
        if self._resources.disabled is not None:
            self._resources.disabled.end(self)

    # --- the stages ----------------------------------------------------------------------------------------------

    def _go(self, event: StageEvent) -> None:
        self.stage = after(self.stage, event)
        self._wake()

    async def _once(self) -> None:
        """Goes from LOADING through the stages until the namespace has to be loaded again."""
        if self.stage is Stage.FAILED:
            self._go(StageEvent.AGAIN)
        if await self._load():
            self._go(StageEvent.OFF)
            await self._rest()
        else:
            self._go(StageEvent.ANSWERS)
            await self._follow()

    def _failed(self, error: BaseException) -> None:
        """Enters FAILED, in which the error is sent as a status and retried; or ENDED if the error concerns the whole stream."""
        self._leave()
        super()._failed(error)
        assert self._failure is not None, "it failed"
        if self._fault is not None:
            self._go(StageEvent.ENDS)
        else:
            if self.outbox.token is None:  # the snapshot was not sent completely
                self.outbox.reset(self._failure.reason, self._failure.message)
            self._go(StageEvent.FAILED)

    async def _load(self) -> bool:
        """LOADING: finds out which topics are disabled, and waits for the namespace unless all of them are.

        Returns:
            Whether the policies of all watched topics are disabled; if not, the namespace can answer.

        Raises:
            PolicyError: it can't be found out whether policies are disabled, or the namespace can't be loaded.
        """
        topics = self._selection.topics
        if self._resources.disabled is not None:
            self._disabled = await self._resources.disabled.begin(self, self.name, topics, self._switch)
            if self._disabled.all_of(topics):
                return True
        self._namespace = namespace = self._resources.registry.get(self.name)
        self._wake()
        await namespace.ready()
        self._failure = None
        return self._disabled.all_of(topics)

    async def _rest(self) -> None:
        """DISABLED: returns when the policies of some watched topic have been enabled."""
        self._failure = None
        self.outbox.reset(Reason.TOPIC_POLICIES_SWITCHED, f"The topic policies of the watched topics of {self.name} were disabled.")
        for key in self._selection.keys() or ():
            self.outbox.add(events.disabled_record(self.name, key))
        self.outbox.sync(NOTHING_READ, self._resources.registry.common.now())
        self._switched = asyncio.Event()
        while self._disabled.all_of(self._selection.topics):
            self._switched.clear()
            await self._switched.wait()
        self._go(StageEvent.ON)
        self.outbox.reset(Reason.TOPIC_POLICIES_SWITCHED, f"Topics of {self.name} had their policies enabled.")

    async def _follow(self) -> None:
        """BEGINNING, RECALLING and FOLLOWING: returns when FOLLOWING was interrupted and the namespace has to be loaded again."""
        namespace, outbox, disabled = self._namespace, self.outbox, self._disabled
        assert namespace is not None, "loaded"
        mark = disabled.digest
        if outbox.token is not None and outbox.token.left_out != mark:
            outbox.reset(Reason.TOPIC_POLICIES_SWITCHED, f"Topics of {self.name} had their policies disabled or enabled.")
        watcher = await self._watcher_of(namespace, mark)
        self._taking = taking = Taking(namespace, watcher, mark)
        if self._disabled != disabled:
            taking.interrupt(Interruption.SWITCHED)
        self._go(StageEvent.PLACED)
        try:
            why = await taking.interrupted
        finally:
            outbox.token = taking.place
            self._leave()
        self._go(StageEvent.INTERRUPTED)
        if why is Interruption.REPLACED:
            outbox.reset(Reason.LOG_REPLACED, f"The change log of {self.name} was replaced by another one.")
        elif why is Interruption.BEHIND and outbox.token is None:
            incomplete = f"The snapshot of {self.name} was not complete when its log was read again, or corrected."
            outbox.reset(Reason.TOKEN_OUT_OF_RANGE, incomplete)
        elif why is Interruption.SWITCHED or outbox.token is None:
            outbox.reset(Reason.TOPIC_POLICIES_SWITCHED, f"Topics of {self.name} had their policies disabled or enabled.")

    async def _watcher_of(self, namespace: Namespace, mark: str) -> Watcher:
        """Returns a watcher that goes on from the token; where that is impossible, one that begins with a snapshot, after a reset."""
        outbox = self.outbox
        while True:
            try:
                return await namespace.watch(self._selection, self._watch.mode, outbox.token, self._wake)
            except OutOfRange as error:
                assert outbox.token is not None, "a snapshot is always to be had"
                try:
                    every = self._watch.mode is Mode.EVERY
                    if not (error.older and every and self._resources.registry.common.history is not None):
                        raise Gone(Reason.EVENTS_GONE if error.older and every else Reason.TOKEN_OUT_OF_RANGE, str(error))
                    place = outbox.token._replace(left_out=mark)
                    outbox.token = await self._recall(place)
                    if outbox.token == place:
                        raise Gone(Reason.EVENTS_GONE, "the history does not have what followed it")
                except Gone as gone:
                    outbox.reset(gone.reason, f"The watch of {self.name} can't continue from its token: {gone}.")

    async def _recall(self, token: Token) -> Token:
        """RECALLING: sends the changes that the history has behind a token. Returns the token behind the last of them.

        Raises:
            Gone: changes are missing.
            PolicyError: the history can't be read.
        """
        self._go(StageEvent.RECORDED)
        place, outbox, history = token, self.outbox, histories.of(self._resources.registry)
        try:
            while True:
                try:
                    stretch = await history.stretch(self.name, place, _STRETCH)
                except UnknownLog as error:
                    raise Gone(Reason.EVENTS_GONE, str(error)) from None
                if not stretch.whole:
                    raise Gone(Reason.EVENTS_GONE, "events between it and now are gone, and the history does not have them")
                if stretch.place.log != place.log:
                    return token  # the namespace is about to follow another log
                for piece in stretch.pieces:
                    if isinstance(piece, Recorded):  # there are no gaps
                        self._add_recorded(piece)
                place = outbox.token = token = stretch.place
                await outbox.emptied()
                if not stretch.more:
                    return token
        finally:
            self._go(StageEvent.RECALLED)

    def _add_recorded(self, piece: Recorded) -> None:
        """Sends an event of the history as a change, if it changed a document that this watch wants."""
        entry = piece.entry
        if not histories.is_change(entry) or entry.topic in self._disabled:
            return
        if self._selection.includes(PolicyKey(entry.topic, Scope(entry.scope))):
            change = histories.change_message(entry, with_before=self._watch.include_previous)
            self.outbox.add(events.resumable(events.change_of(self.name, change), piece.token))

    def _switch(self, disabled: Disabled) -> None:
        if disabled == self._disabled:
            return
        self._disabled = disabled
        if self._taking is not None:
            self._taking.interrupt(Interruption.SWITCHED)
        if self._switched is not None:
            self._switched.set()

    # --- what is sent ---------------------------------------------------------------------------------------------

    def _records(self, taking: Taking, batch: Batch) -> list[bytes]:
        """Returns the records of a batch."""
        disabled, outbox = self._disabled, self.outbox
        synced = batch.synced and not outbox.synced
        token = taking.marked(batch.token)
        records: list[bytes] = []
        if batch.changes:
            if not outbox.synced:
                records += [events.disabled_record(self.name, each.key) for each in batch.changes if each.key.topic in disabled]
            wire, before_too = self.authorization.wire, self._watch.include_previous
            pieces = events.change_pieces(self.name, batch, wire, disabled, with_before=before_too, own=wire is not self._resources.wire)
            stood = taking.marked(batch.stood) if len(pieces) > 1 else None
            for piece in pieces[:-1]:
                records.append(piece.bytes(stood and stood.moved(batch.changes[: piece.upto])))
            if pieces:
                records.append(pieces[-1].bytes(None if synced else token))  # SYNCED has the token behind itself
        if synced:
            assert token is not None, "synced"
            records.append(self._bookmark(token, synced=True))
            outbox.synced = True
        outbox.counts = outbox.counts or bool(records)
        self.more = batch.more
        return records

    def _bookmark(self, token: Token, *, synced: bool) -> bytes:
        confirmed = self._complete_as_of_ms()
        return events.bookmark(self.name, token, confirmed, self._resources.registry.common.now(), synced=synced)

    def _problem(self) -> PolicyError | None:
        """Why the part can't follow the namespace, other than the state of the namespace itself (see ``status.status_of``)."""
        return self._failure if self._taking is None else None

    # --- where the client stands ----------------------------------------------------------------------------------

    def _place(self) -> Token | None:
        """Returns the token of what the client has been sent; None while there is none, such as during a snapshot."""
        return self._taking.token if self._taking is not None else self.outbox.token

    def _is_followed(self) -> bool:
        serves = self._namespace is not None and self._namespace.phase is Phase.READY and self._problem() is None
        return serves or self.stage is Stage.DISABLED

    def _complete_as_of_ms(self) -> int:
        """Returns as of when every change was taken, in milliseconds since 1970. It does not advance while changes wait to be taken."""
        if self.stage is Stage.DISABLED or self._namespace is None:
            return self._resources.registry.common.now()
        if self._taking is not None:
            self._taken_ms = self._taking.complete_as_of_ms
        return self._taken_ms

    def _leave(self) -> None:
        """Gives back the watcher, if there is one."""
        taking, self._taking = self._taking, None
        if taking is not None:
            self._taken_ms = taking.complete_as_of_ms
            taking.close()
