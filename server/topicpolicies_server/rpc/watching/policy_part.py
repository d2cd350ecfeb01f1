"""One namespace of a WatchPolicies stream.

``_follow`` goes through these steps, and begins anew when the watcher can't go on or topics were disabled or enabled:

1. it finds out which of the watched topics are disabled (``cluster/cluster``), and loads the namespace (status LOADING);
2. if all of them are disabled, it sends a reset, the absence of each named topic and SYNCED, and waits for a change (status DISABLED);
3. it gets a watcher that goes on from the client's token: if need be, it sends what the history has behind the token first. If that is
   impossible, it sends a reset, and the watcher begins with a snapshot;
4. the stream takes changes directly from the watcher (status READY), with SYNCED behind the snapshot, until it can't go on.

A reset is sent only if the client has anything that it invalidates. Topics that are disabled are absent for the watch.

The bytes of a change are made once for all watchers: its event is kept with the head (``change_event``), and the records of the changes
that watchers of a whole namespace take together, with the resume token behind them, with these (``changes_record``).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

from topicpolicies.v1 import service_pb2

from ...access import Permission
from ...cluster.cluster import Cluster, Disabled
from ...core.errors import PolicyError
from ...core.names import PolicyKey, Scope
from ...core.policies import documents
from ...core.policies.documents import record
from ...core.policies.events import ABSENT
from ...core.policies.secrets import SETTING
from ...core.reading import tokens
from ...core.reading.cell import Head
from ...core.reading.tokens import Lagged, Mode, OutOfRange, Replaced, Selection, Token
from ...core.reading.watch import Taken, Watcher
from ...core.reasons import Reason
from ...history.file import Recorded, UnknownLog
from ...namespaces.namespace import Namespace
from ...namespaces.registry import Registry
from .. import histories
from ..answers import Wire, document, origin, tag_of
from ..calls import Call
from ..dependencies import Dependencies
from .requests import Watch, read_watch
from .stream import Part

CHANGES_A_TURN = 256
"""Changes that are taken from one namespace before the stream looks at its other ones; fewer if they are long (``TAKEN_BYTES``)."""
_STRETCH = 256


def watch_policies(dependencies: Dependencies, message: service_pb2.WatchPoliciesRequest, call: Call) -> Awaitable[None]:
    """Serves WatchPolicies."""
    limits = dependencies.limits
    watch = read_watch(message, limits.max_selectors_per_watch, limits.bookmark_interval_seconds)
    call.target = next(iter((*message.namespaces, *message.topics)), "")
    needed = (Permission.WATCH, Permission.HISTORY) if watch.mode is Mode.EVERY else (Permission.WATCH,)
    part_of = partial(PolicyPart, dependencies.registry, dependencies.cluster, watch)
    return dependencies.watches.run(call, needed, watch.topics, part_of, watch.bookmark_seconds)


class PolicyPart(Part):
    """One namespace of a WatchPolicies stream."""

    def __init__(
        self, registry: Registry, cluster: Cluster | None, watch: Watch, name: str, notify: Callable[[], None], wire: Wire
    ) -> None:
        """Does nothing before ``begin``. ``cluster``: knows what is disabled by a property; None: nothing can be."""
        super().__init__(registry, name, "the watch of", notify, wire)
        self._cluster = cluster
        self._watch = watch
        self._selection = Selection(watch.topics[name], watch.scopes)
        self._disabled = Disabled()
        self._watcher: Watcher | None = None
        self._over = asyncio.Event()
        """Set when the watcher can't go on."""
        self._resume_from = watch.resume.get(name)
        """Where the part goes on while it has no watcher; None: from the beginning."""
        self._counts = self._resume_from is not None
        """Whether the client may have something of this namespace that a reset would invalidate."""
        self._taken_ms = 0
        """As of when every change had been taken, when that was known last; in milliseconds since 1970; 0: it was never known."""

    # --- called by the stream -----------------------------------------------------------------------------------

    def _take_changes(self) -> list[bytes]:
        if self._watcher is None:
            return []
        try:
            taken = self._watcher.take(CHANGES_A_TURN)
        except (Lagged, Replaced):
            self._over.set()
            return []
        token, synced = self._marked(taken.token), not (taken.more or self._synced)
        records: list[bytes] = []
        if self._disabled and not self._synced:
            records += [disabled_record(self.name, each.key) for each in taken.heads if each.key.topic in self._disabled]
        behind = None if synced else token  # SYNCED has the token behind itself
        if changes := changes_record(self.name, taken, (self.wire, self._watch.include_previous, self._disabled), behind):
            records.append(changes)
        if synced:
            assert token is not None, "synced"
            records.append(self._bookmark(tokens.write(token), synced=True))
            self._synced = True
        self._counts = self._counts or bool(records)
        self.more = taken.more
        return records

    # --- the task -------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Follows the namespace until its watcher can't go on, or topics were disabled or enabled.

        Raises:
            PolicyError: it can't be found out whether policies are disabled, or the namespace or the history can't be read.
        """
        self._over.clear()
        self._rests, topics = "", self._selection.topics
        if self._cluster is not None:
            self._disabled = await self._cluster.disabled_of(self.name, topics)
        if self._disabled.all_of(topics):
            self._failure = None
            await self._rest()
            return
        self._namespace = namespace = self._registry.get(self.name)
        self._notify()
        await namespace.ready()
        self._failure = None
        if self._resume_from is not None and self._resume_from.left_out != self._disabled.digest:
            self._reset_switched()
        self._watcher = watcher = await self._watcher_of(namespace)
        self._taken_ms = namespace.complete_as_of_ms
        self._notify()
        try:
            switched = await self._until_over()
        finally:
            self._leave(namespace, watcher)
        if watcher.ended is Replaced:
            self._reset(Reason.LOG_REPLACED, f"The change log of {self.name} was replaced by another one.")
        elif switched:
            self._reset_switched()
        elif self._resume_from is None:
            anew = f"The watch of {self.name} can't go on from where it stood: its log was read again, or corrected."
            self._reset(Reason.TOKEN_OUT_OF_RANGE, anew)

    def _failed(self, error: BaseException) -> None:
        super()._failed(error)
        if self._failure is not None and self._resume_from is None:  # the snapshot was not sent completely
            self._reset(self._failure.reason, self._failure.message)

    async def _rest(self) -> None:
        """Sends that everything is disabled. Returns when the policies of some watched topic have been enabled."""
        self._reset(Reason.TOPIC_POLICIES_SWITCHED, f"The topic policies of the watched topics of {self.name} were disabled.")
        self._rests = f"The topic policies of the watched topics of {self.name} are disabled."
        for key in self._selection.keys() or ():
            self._add_event(disabled_record(self.name, key))
        self._synced, self._resume_from = True, tokens.NOTHING_READ
        self._add_event(self._bookmark(tokens.write(tokens.NOTHING_READ), synced=True))
        await self._until_over()
        self._reset_switched()

    async def _watcher_of(self, namespace: Namespace) -> Watcher:
        """Returns a watcher that goes on from the token; where that is impossible, one that begins with a snapshot, after a reset."""
        while True:
            try:
                return await namespace.watch(self._selection, self._watch.mode, self._resume_from, self._notify)
            except OutOfRange as error:
                assert self._resume_from is not None, "a snapshot is always to be had"
                gone, why = error.older and self._watch.mode is Mode.EVERY, str(error)
                if gone and self._registry.common.history is not None:
                    why = await self._recall(self._resume_from._replace(left_out=self._disabled.digest))
                if why:
                    reason = Reason.EVENTS_GONE if gone else Reason.TOKEN_OUT_OF_RANGE
                    self._reset(reason, f"The watch of {self.name} can't continue from its token: {why}.")

    async def _recall(self, token: Token) -> str:
        """Sends the changes that the history has behind a token, and goes on from there. Returns why that is impossible; "": it is not.

        Raises:
            PolicyError: the history can't be read.
        """
        place, history = token, histories.of(self._registry)
        while True:
            try:
                stretch = await history.stretch(self.name, place, _STRETCH)
            except UnknownLog as error:
                return str(error)
            if not stretch.whole:
                return "events between it and now are gone, and the history does not have them"
            if stretch.token.log == place.log:  # if not, the namespace is about to follow another log
                for piece in stretch.pieces:
                    if isinstance(piece, Recorded):  # there are no gaps
                        self._add_recorded(piece)
                place = self._resume_from = stretch.token
                await self._all_taken()
                if stretch.more:
                    continue
            return "the history does not have what followed it" if place == token else ""

    def _add_recorded(self, piece: Recorded) -> None:
        """Sends an event of the history as a change, if it changed a document that this watch wants."""
        entry = piece.entry
        if not histories.is_change(entry) or entry.topic in self._disabled:
            return
        if self._selection.includes(PolicyKey(entry.topic, Scope(entry.scope))):
            change = histories.change_message(entry, with_before=self._watch.include_previous)
            self._add_event(_event_record(_namespace_record(self.name) + record(_CHANGE, change), piece.token))

    async def _until_over(self) -> bool:
        """Returns when the watcher can't go on, or topics were disabled or enabled: whether they were. Pulsar notifies nobody of that."""
        cluster = self._cluster
        if cluster is None:
            await self._over.wait()
            return False
        cluster.polled += 1
        try:
            while not self._over.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(cluster.poll_seconds):
                        await self._over.wait()
                with contextlib.suppress(PolicyError):
                    if await cluster.disabled_of(self.name, self._selection.topics, stale=True) != self._disabled:
                        return True
            return False
        finally:
            cluster.polled -= 1

    def _leave(self, namespace: Namespace, watcher: Watcher) -> None:
        """Gives back the watcher, and notes where it stood."""
        self._taken_ms, self._resume_from = self._complete_as_of_ms(), self._marked(watcher.resume_from)
        self._watcher = None
        namespace.unwatch(watcher)

    # --- what is sent ---------------------------------------------------------------------------------------------

    def _add_event(self, record: bytes) -> None:
        self._counts = True
        self._add(record)

    def _reset_switched(self) -> None:
        self._reset(Reason.TOPIC_POLICIES_SWITCHED, f"Topics of {self.name} had their policies disabled or enabled.")

    def _reset(self, reason: Reason, message: str) -> None:
        """Forgets where the client stands, and sends a reset if it may have anything that the reset invalidates."""
        self._resume_from, self._synced = None, False
        if self._counts:
            self._add_reset(reason, f"{message} A snapshot follows.")
            self._counts = False

    def _event(self, place: str | None, **content: Any) -> bytes:
        return record(_EVENTS, service_pb2.WatchEvent(namespace=self.name, resume_token=place or "", **content).SerializeToString())

    # --- where the client stands ----------------------------------------------------------------------------------

    def _place(self) -> str | None:
        """Returns the token of what the client has been sent; None while there is none, such as during a snapshot."""
        token = self._marked(self._watcher.token) if self._watcher is not None else self._resume_from
        return tokens.write(token) if token is not None else None

    def _marked(self, token: Token | None) -> Token | None:
        """Returns a token of the watcher with the topics that are left out."""
        return token._replace(left_out=self._disabled.digest) if token is not None and self._disabled else token

    def _complete_as_of_ms(self) -> int:
        """Returns as of when every change was taken. It does not advance while changes wait to be taken."""
        if self._rests or self._namespace is None:
            return self._registry.common.now()
        if self._watcher is not None and self._watcher.has_all:
            self._taken_ms = self._namespace.complete_as_of_ms
        return self._taken_ms


# --- the bytes of changes --------------------------------------------------------------------------------------------


Form: TypeAlias = tuple[Wire, bool, frozenset[str]]
"""What serializes the documents of changes, whether the documents before them are sent too, and the topics whose changes are not sent."""


def changes_record(namespace: str, taken: Taken, form: Form, token: Token | None) -> bytes:
    """Returns what was taken as joined records. ``token``: where the watch stands behind them; None: it can't be resumed there.

    The bytes are kept with what was taken, for all who take the same and stand at the same place.
    """
    known: tuple[Token | None, bytes] | None = taken.made.get(form)
    if known is not None and known[0] == token:
        return known[1]
    wire, with_before, disabled = form
    records: list[bytes] = []
    last: bytes | None = None
    for change in taken.heads:
        if change.key.topic not in disabled:
            if last is not None:
                records.append(record(_EVENTS, last))
            last = change_event(namespace, change, wire, with_before=with_before)
    if last is not None:
        records.append(_event_record(last, token))
    joined = b"".join(records)
    taken.made[form] = token, joined
    return joined


def change_event(namespace: str, change: Head, wire: Wire, *, with_before: bool) -> bytes:
    """Returns a change as a serialized ``WatchEvent`` without a token; ``with_before``: with the document before it, if that is known.

    The bytes are kept in the head for all watchers, unless it has secrets.
    """
    before = change.before if with_before else None
    known = change.encoded if before is None else change.with_before
    if known is not None:
        return known
    secret = SETTING in (change.document or ()) or (before is not None and SETTING in (before.document or ()))
    if not secret:
        wire = documents.wire
    body = record(_DOCUMENT, document(change.key, change.version, None if change.document is None else wire(change.document)))
    if before is not None:
        body += record(_PREVIOUS, document(change.key, change.previous, None if before.document is None else wire(before.document)))
    rest = service_pb2.PolicyChange(previous_version=change.previous)
    if (placed := change.placed) is not None:
        stamp = placed.event.stamp if placed.event is not None else None
        made = origin(placed.producer, placed.published_at, stamp, stamp.mask if stamp is not None else ())
        rest.origin.CopyFrom(made)
    event = _namespace_record(namespace) + record(_CHANGE, body + rest.SerializeToString())
    if not secret and before is None:
        change.encoded = event
    elif not secret:
        change.with_before = event
    return event


def disabled_record(namespace: str, key: PolicyKey) -> bytes:
    """Returns the absence of a named topic's document because its policies are disabled."""
    absence = record(_DOCUMENT, document(key, ABSENT, None, disabled=True))
    return record(_EVENTS, _namespace_record(namespace) + record(_CHANGE, absence))


def _event_record(event: bytes, token: Token | None) -> bytes:
    """Returns a serialized ``WatchEvent`` as a record with a resume token, if there is one and it is not too long."""
    text = tokens.write(token) if token is not None else ""
    return record(_EVENTS, event + record(_TOKEN, text.encode()) if text else event)


@lru_cache(1_024)
def _namespace_record(namespace: str) -> bytes:
    return record(_NAMESPACE, namespace.encode())


_EVENTS: Final = tag_of(service_pb2.WatchPoliciesResponse, "events")
_NAMESPACE: Final = tag_of(service_pb2.WatchEvent, "namespace")
_TOKEN: Final = tag_of(service_pb2.WatchEvent, "resume_token")
_CHANGE: Final = tag_of(service_pb2.WatchEvent, "change")
_DOCUMENT: Final = tag_of(service_pb2.PolicyChange, "document")
_PREVIOUS: Final = tag_of(service_pb2.PolicyChange, "previous")
