"""What happens in a server's namespaces: counters, and the last events and repairs that an operator should know of, with before and after.

The counters are plain numbers that belong to the event loop, because some of them change with every event. ``metrics/`` exports them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..core.chains.sequencer import Outcome, Request, Result
from ..core.errors import PolicyError
from ..core.fold.fold import Folded, Status
from ..core.names import PolicyKey
from ..core.policies.documents import Setting, Settings
from ..core.policies.events import Event, Placed, Position
from ..logs.change_log import LogError
from .stages import Stages
from .wording import difference, event_in_words

_LOG = logging.getLogger(__name__)
KEPT = 256
"""How many doubtful events, and how many repairs, are kept; the oldest go first."""
_MOST_FAILURES = 1_000
"""Namespaces of which the last failure to load is kept; beyond that the oldest is forgotten, and would be logged again."""


class Doubt(NamedTuple):
    """A broker's event of which it is not certain what it was meant to change."""

    namespace: str
    key: PolicyKey
    kind: str
    """``unexplained`` or ``ambiguous`` (see ``core.fold.operation.Folded``)."""
    placed: Placed
    settings: tuple[Setting, ...]
    """The settings that it was taken to change."""
    before: Settings | None
    """The head before it."""
    after: Settings | None
    """The head after it."""


class Repair(NamedTuple):
    """A repair: the raw document was not the head."""

    namespace: str
    key: PolicyKey
    version: Position
    """The version of the head."""
    before: Settings | None
    """The raw document, which brokers show."""
    after: Settings | None
    """The head, which brokers show once it is repaired."""
    cause: Placed | None
    """The event that made it due; None: it was due when the log was opened."""


class Figures(NamedTuple):
    """The figures of one namespace that operators see, as of one moment."""

    serves: bool
    """Whether its view answers from a log that is open."""
    chains: int
    """Policy keys with something in flight."""
    depth: int
    """Events in flight of the key that has the most."""
    waiting: int
    """Requests that wait: for the log to be read or to have a writer, or to be computed or confirmed."""
    unread: int
    """Events that count by proof, and that the log's reader has not delivered yet: how far the reader is behind."""
    unproven: int
    """Events that the log has acknowledged, and that wait for the reader because nothing proves what is before them."""
    confirmed_ms: int
    """As of when the view is known to be complete, in milliseconds since 1970; 0: the namespace is not watched, so the log is not asked."""


class Usage:
    """The watchers, holders and waiting requests of one namespace: one that nothing uses may be closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begins unused. ``loop``: the event loop, whose clock counts."""
        self._loop = loop
        self.watching: dict[object, Callable[[], None] | None] = {}
        """Watchers and observers, with what wakes those that follow the state of the namespace."""
        self.holders: set[object] = set()
        """Parts of the server that keep the namespace loaded."""
        self.pending = 0
        """How many requests have no answer yet."""
        self.last_used = loop.time()
        """When the namespace was used last, in seconds of the loop's clock."""

    @property
    def any(self) -> bool:
        """Whether the namespace is watched, held, or awaited by a request."""
        return bool(self.watching) or bool(self.holders) or self.pending > 0

    def wake(self) -> None:
        """Wakes the observers that follow the state of the namespace: it may have changed."""
        for wake in filter(None, self.watching.values()):
            wake()

    def used(self) -> None:
        """Notes that the namespace is used now."""
        self.last_used = self._loop.time()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts a request that waits, for as long as the context lasts."""
        self.pending += 1
        try:
            yield
        finally:
            self.pending -= 1


class Activity:
    """What happened in all namespaces since the server started."""

    def __init__(self, kept: int = KEPT) -> None:
        """``kept``: how many doubtful events, and how many repairs, are kept."""
        self.updates: Counter[str] = Counter()
        """Answered updates, by outcome (``APPLIED``...) or by the reason of the error."""
        self.confirmations: Counter[str] = Counter()
        """Updates for which there was nothing to write, as far as the view showed, once the log was asked where it ends: ``held``, there
        was nothing; ``overtaken``, others had written, and so was the update; ``failed``, this could not be confirmed."""
        self.events: Counter[tuple[str, str]] = Counter()
        """Events that were folded after their namespace was loaded, by writer (``sidecar``, ``broker``) and by what became of them."""
        self.conflicts: Counter[str] = Counter()
        """Events that were computed from something else than the head that they met, by writer."""
        self.ambiguous = 0
        self.unexplained = 0
        self.unreadable = 0
        self.repairs: Counter[str] = Counter()
        """Repairs: ``published``; ``cancelled``, brokers show the head again before it was published; ``withheld``, nothing may be written
        here; ``refused``, the log can't take it."""
        self.loads: Counter[str] = Counter()
        """Attempts to load a namespace: ``loaded``, ``failed``."""
        self.load_failures: Counter[str] = Counter()
        """Failed attempts to load a namespace, by reason."""
        self.losses: Counter[str] = Counter()
        """Change logs that could not be followed any more, by reason."""
        self.append_failures: Counter[str] = Counter()
        """Events of ours that the log did not acknowledge, by reason."""
        self._last_failures: OrderedDict[str, str] = OrderedDict()
        """By namespace, until it is loaded: the last failure to load it. One that nothing uses is forgotten after each attempt."""
        self.stages = Stages()
        """How long changes take."""
        self.doubts: deque[Doubt] = deque(maxlen=kept)
        """The last doubtful events."""
        self.repaired: deque[Repair] = deque(maxlen=kept)
        """The last repairs that were published, or withheld."""
        self.on_repair: Callable[[Repair, bool], None] | None = None
        """Called with each repair, and whether it is published (or withheld). Must not raise."""
        self.on_let_go: Callable[[], None] | None = None
        """Called when documents are not needed any more: a namespace has been closed, or its log was opened anew. Must not raise."""

    def updated(self, request: Request, answer: Result | PolicyError) -> None:
        """Counts an update that was answered."""
        self.updates[answer.reason if isinstance(answer, PolicyError) else answer.outcome.name] += 1
        if not request.needs_confirmation:
            return
        if not request.confirmed:
            self.confirmations["failed"] += 1
        else:
            written = isinstance(answer, Result) and answer.outcome is Outcome.APPLIED and not request.validate_only
            self.confirmations["overtaken" if written else "held"] += 1

    def not_appended(self, event: Event, error: PolicyError) -> None:
        """Counts an event of ours that the log has not acknowledged."""
        self.append_failures[error.reason] += 1
        self.stages.refused(event)

    def loaded(self, namespace: str) -> None:
        """Counts a namespace whose log has been read and whose view answers."""
        self.loads["loaded"] += 1
        self._last_failures.pop(namespace, None)

    def load_failed(self, namespace: str, error: LogError) -> None:
        """Counts a failed attempt to load a namespace. The server's log has a failure once, however often it is repeated."""
        self.loads["failed"] += 1
        self.load_failures[error.reason] += 1
        level = logging.DEBUG if self._last_failures.get(namespace) == error.message else logging.WARNING
        self._last_failures[namespace] = error.message
        self._last_failures.move_to_end(namespace)
        if len(self._last_failures) > _MOST_FAILURES:
            self._last_failures.popitem(last=False)
        _LOG.log(level, "%s can't be loaded: %s", namespace, error.message)

    def let_go(self) -> None:
        """Notes that documents are not needed any more: a namespace has been closed, or its log was opened anew."""
        if self.on_let_go is not None:
            self.on_let_go()

    def folded(self, namespace: str, placed: Placed, folded: Folded, before: Settings | None, after: Settings | None) -> None:
        """Counts an event that was folded into the view that answers, and keeps and logs it if it is doubtful.

        Args:
            namespace: ``tenant/namespace``.
            placed: the event.
            folded: what it did.
            before: the head before it.
            after: the head after it.
        """
        event = placed.event
        if event is None:
            return
        writer = "broker"
        if event.stamp is not None:
            writer = "sidecar"
            self.stages.folded(event.stamp.event_id)
        self.events[writer, folded.status.value] += 1
        if folded.stale and folded.status is not Status.DUPLICATE:
            self.conflicts[writer] += 1
        if folded.unexplained or folded.ambiguous:
            kind = "unexplained" if folded.unexplained else "ambiguous"
            self.unexplained += folded.unexplained
            self.ambiguous += folded.ambiguous
            self.doubts.append(Doubt(namespace, event.key, kind, placed, folded.settings, before, after))
            level = logging.WARNING if folded.unexplained else logging.INFO
            _LOG.log(level, "%s event: %s; the document: %s", kind, event_in_words(placed, folded.settings), difference(before, after))

    def repair(self, repair: Repair, *, published: bool) -> None:
        """Counts and keeps a repair that was handed to the log, or would have been if anything might be written here."""
        self.repairs["published" if published else "withheld"] += 1
        self.repaired.append(repair)
        if self.on_repair is not None:
            self.on_repair(repair, published)
