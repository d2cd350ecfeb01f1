"""One WatchPolicies stream: any number of namespaces, each with its own watcher, brought into one stream.

The stream pulls: it takes from its watchers when the last message is written, so a reader that does not read costs nothing but itself.

Topics whose policies are disabled are left out (``switches``). A watcher knows nothing of that: its part leaves them out of what it takes,
and ends the stream when others are disabled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator

from topicpolicies.v1 import service_pb2

from ..cluster.admission import Admission, policies_disabled
from ..cluster.disabling import PROPERTY
from ..core.errors import Kind, PolicyError
from ..core.events import ABSENT
from ..core.names import Scope
from ..core.view import Change
from ..core.watch import Batch, Lagged, OutOfRange, Selection, Token, Watcher
from ..namespaces.namespace import Namespace, Phase
from ..namespaces.registry import Registry
from . import answers
from .requests import Watch
from .switches import Board, Switchboard, unmarked

_TURN = 64
"""Changes that one namespace may send before the others have their turn."""
_RETRY_SECONDS = (0.1, 10.0)
"""The first and the longest pause before a namespace that can't be loaded is tried again."""


class WatchStream:
    """The messages of one stream."""

    def __init__(
        self,
        registry: Registry,
        watch: Watch,
        stopping: asyncio.Event,
        wire: answers.Wire,
        admission: Admission | None = None,
        switchboard: Switchboard | None = None,
    ) -> None:
        """Begins nothing yet.

        Args:
            registry: the namespaces.
            watch: what is watched.
            stopping: set when the server stops.
            wire: how documents are shown.
            admission: tells which topics have policies; None: all.
            switchboard: tells when that changes; there is one wherever there is an admission.
        """
        self._interval = watch.bookmark_seconds
        self._wake = asyncio.Event()
        self._stopping = stopping
        self._parts = [
            _Part(registry, name, Selection(topics, watch.scopes), watch, self._wake, wire, admission, switchboard)
            for name, topics in watch.topics.items()
        ]

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """Serialized ``WatchPoliciesResponse`` messages.

        Raises:
            PolicyError: OUT_OF_RANGE when a token can't be resumed from, or when policies were disabled or enabled (UNAVAILABLE as long
                as the reader can't have a token), RESOURCE_EXHAUSTED when the reader was too slow for EVERY, UNAVAILABLE when the
                server stops.
        """
        loop = asyncio.get_running_loop()
        for part in self._parts:
            part.attach()
        stop = loop.create_task(self._stop())
        next_bookmark = loop.time() + self._interval
        try:
            while True:
                self._wake.clear()
                more = False
                for part in self._parts:
                    for message in part.take():
                        yield message
                    more = more or part.more
                if self._stopping.is_set() and not more:
                    for message in self._bookmarks():
                        yield message
                    raise PolicyError(
                        Kind.UNAVAILABLE, "SHUTTING_DOWN", "The server is stopping: resume elsewhere, or here later, with the token."
                    )
                now = loop.time()
                if now >= next_bookmark:
                    for message in self._bookmarks():
                        yield message
                    next_bookmark = now + self._interval
                if not more:
                    timer = loop.call_later(max(0.0, next_bookmark - now), self._wake.set)
                    try:
                        await self._wake.wait()
                    finally:
                        timer.cancel()
        finally:
            stop.cancel()

    async def close(self) -> None:
        """Gives the watchers back."""
        await asyncio.gather(*(part.close() for part in self._parts))

    async def _stop(self) -> None:
        await self._stopping.wait()
        self._wake.set()

    def _bookmarks(self) -> Iterator[bytes]:
        for part in self._parts:
            token = part.token
            if token is not None:
                yield answers.bookmark(part.name, service_pb2.BOOKMARK_KIND_TIMER, token)


class _Part:
    """One namespace of a stream."""

    def __init__(
        self,
        registry: Registry,
        name: str,
        selection: Selection,
        watch: Watch,
        wake: asyncio.Event,
        wire: answers.Wire,
        admission: Admission | None,
        switchboard: Switchboard | None,
    ) -> None:
        self.name = name
        self._admission = admission
        self._switchboard = switchboard
        self._board: Board | None = None
        self._switches = 0
        """Those of the board that were there when this part began."""
        self._held: Batch | None = None
        """What was taken, and waits until it is known which of its topics are disabled."""
        self._looking: asyncio.Task[None] | None = None
        self._synced = False
        self.more = False
        self._registry = registry
        self._selection = selection
        self._watch = watch
        self._wake = wake
        self._wire = wire
        self._namespace: Namespace | None = None
        self._watcher: Watcher | None = None
        self._fault: PolicyError | None = None
        """Ends the stream."""
        self._problem: PolicyError | None = None
        """Why the namespace could not be loaded when it was tried last."""
        self._told: tuple[Phase, str] | None = None
        self._attaching: asyncio.Task[None] | None = None

    @property
    def token(self) -> Token | None:
        """Where this part stands; None while there is no such place."""
        token = self._watcher.token if self._watcher is not None and self._held is None else None
        if token is None or self._board is None:
            return token
        return token._replace(log=token.log + self._board.mark(self._selection.topics))

    def attach(self) -> None:
        """Begins to get a watcher, which takes as long as the namespace loads."""
        self._attaching = asyncio.create_task(self._attach())

    async def _attach(self) -> None:
        pause, longest = _RETRY_SECONDS
        while True:
            try:
                if self._admission is not None:
                    await self._admission.watch(self.name, self._watch.topics[self.name])
                self._namespace = self._registry.get(self.name)
                self._wake.set()
                await self._look(self._namespace)
                self._watcher = await self._namespace.watch(self._selection, self._watch.mode, self._resume(), self._wake.set)
            except OutOfRange as error:
                self._fault = _out_of_range(self.name, str(error))
            except PolicyError as error:
                self._problem = error
                self._wake.set()
                if error.reason not in ("SHUTTING_DOWN", "TOO_MANY_NAMESPACES"):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, longest)
                    continue
                self._fault = error
            self._wake.set()
            return

    async def _look(self, namespace: Namespace) -> None:
        """Looks which of the selected topics are disabled.

        Raises:
            PolicyError: all of them are, or it can't be told.
        """
        if self._switchboard is None:
            return
        topics = self._selection.topics
        if self._board is None:
            self._board = self._switchboard.join(self.name, self, self._wake.set)
        if topics is None:
            await namespace.ready()
            heads, _, _ = await namespace.page(frozenset(Scope), None, namespace.documents)
            await self._board.look({head.key.topic for head in heads})
        else:
            await self._board.look(topics)
        self._switches = len(self._board.switched)
        if self._board.everything(topics):
            raise policies_disabled(f"what is watched of {self.name}")

    def _resume(self) -> Token | None:
        """The token to resume from; it must not be of other disabled topics.

        Raises:
            OutOfRange: it is.
        """
        token = self._watch.resume.get(self.name)
        if token is None:
            return None
        identity, mark = unmarked(token.log)
        if mark != (self._board.mark(self._selection.topics) if self._board is not None else ""):
            raise OutOfRange("the policies of other topics are disabled now")
        return token._replace(log=identity)

    def take(self) -> Iterator[bytes]:
        """The next messages of this part."""
        self.more = False
        if self._fault is not None:
            raise self._fault
        board = self._board
        if board is not None and self._watcher is not None and board.concerns(self._switches, self._selection.topics):
            raise _switched(self.name, board.everything(self._selection.topics), self._synced or self.name in self._watch.resume)
        status = self._status()
        if status is not None:
            yield status
        watcher = self._watcher
        if watcher is None:
            return
        try:
            batch = self._taken(watcher)
        except Lagged:
            token = self.token
            if token is not None:
                yield answers.bookmark(self.name, service_pb2.BOOKMARK_KIND_TIMER, token)
            raise PolicyError(
                Kind.RESOURCE_EXHAUSTED,
                "WATCH_TOO_SLOW",
                f"The stream did not keep up with the changes of {self.name}: resume with the token of the last bookmark and the changes"
                " after it, or watch in mode LATEST.",
                metadata={"namespace": self.name},
            ) from None
        if batch is None:
            return
        for change in batch.changes:
            shown = change if board is None or not board.disabled(change.key.topic) else self._absent(change)
            if shown is not None:
                yield answers.change_message(self.name, shown, self._wire)
        if batch.synced:
            self._synced = True
            token = self.token
            assert token is not None, "synced"
            yield answers.bookmark(self.name, service_pb2.BOOKMARK_KIND_SYNCED, token)
        self.more = batch.more

    def _taken(self, watcher: Watcher) -> Batch | None:
        """What is to be told next; None while it is not known which of its topics are disabled.

        Raises:
            Lagged: the stream was too slow.
        """
        board, batch = self._board, self._held
        if self._looking is not None and not self._looking.done():
            return None
        self._held = None
        # What came while a batch was held has woken the stream already, in vain.
        batch = watcher.take(_TURN) if batch is None else batch._replace(more=True)
        if board is None:
            return batch
        unknown = {change.key.topic for change in batch.changes if not board.knows(change.key.topic)}
        if not unknown:
            return batch
        self._held = batch
        self._looking = asyncio.create_task(self._look_at(board, unknown))
        return None

    async def _look_at(self, board: Board, topics: set[str]) -> None:
        pause, longest = _RETRY_SECONDS
        while True:
            try:
                await board.look(topics)
            except PolicyError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
                continue
            self._wake.set()
            return

    def _absent(self, change: Change) -> Change | None:
        """What is told of a disabled topic: in a snapshot that names it, that it is absent."""
        if self._selection.topics is None or self._synced or self.name in self._watch.resume:
            return None
        return Change(change.key, None, ABSENT, "", None, 0)

    async def close(self) -> None:
        """Gives the watcher back."""
        tasks = [task for task in (self._attaching, self._looking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._switchboard is not None and self._board is not None:
            self._switchboard.leave(self.name, self)
        if self._watcher is not None and self._namespace is not None:
            self._namespace.unwatch(self._watcher)

    def _status(self) -> bytes | None:
        """The namespace's state, once each time that it is not ready."""
        reason = ""
        if self._watcher is None and self._problem is not None:
            now, reason = (Phase.FAILED, self._problem.message), self._problem.reason
        elif self._namespace is None or self._namespace.phase is Phase.READY:
            self._told = None
            return None
        else:
            now = (self._namespace.phase, self._namespace.problem)
        if now == self._told:
            return None
        self._told = now
        failed = now[0] in (Phase.FAILED, Phase.CLOSED)
        state = service_pb2.NAMESPACE_STATE_FAILED if failed else service_pb2.NAMESPACE_STATE_LOADING
        return answers.namespace_status(self.name, state, now[1], reason)


def _out_of_range(namespace: str, why: str) -> PolicyError:
    return PolicyError(
        Kind.OUT_OF_RANGE,
        "TOKEN_OUT_OF_RANGE",
        f"The watch of {namespace} can't resume: {why}. Start over without a token: a snapshot follows.",
        metadata={"namespace": namespace},
    )


def _switched(namespace: str, everything: bool, begun: bool) -> PolicyError:
    """``begun``: whether the reader may have a token. Only then OUT_OF_RANGE has something to start over from."""
    if everything:
        reason, what = "TOPIC_POLICIES_DISABLED", f"The topic policies of what is watched of {namespace} were disabled"
        follows = f'the snapshot follows when {PROPERTY} is "false" again'
    else:
        reason, what = "TOPIC_POLICIES_SWITCHED", f"Topics of {namespace} had their policies disabled or enabled"
        follows = "a snapshot of those that are enabled follows"
    kind = Kind.OUT_OF_RANGE if begun else Kind.UNAVAILABLE
    return PolicyError(kind, reason, f"{what}: start over without a token; {follows}.", metadata={"namespace": namespace})
