"""What happens in a server's namespaces: counters, the durations of the stages of a change, and doubtful events and repairs in words.

The counters are plain numbers that belong to the event loop, because some of them change with every event. ``ops/metrics`` exports them.

A change has these stages; one that is not applied does not end the last. The last two are counted when it is answered:

==============  =========================================================  ==========================================================
stage           it begins                                                  it ends
==============  =========================================================  ==========================================================
``waiting``     a call with one change comes                               the change is admitted and handed to its namespace
``sequencing``  a change is handed to its namespace                        its event is handed to the log for the first time
``log``         its event is handed to the log for the first time          it is answered: all before it in the log is known
==============  =========================================================  ==========================================================
"""

from __future__ import annotations

import json
import logging
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToDict

from ..core.chains.request import Outcome, Request, Result
from ..core.errors import PolicyError
from ..core.fold.fold import Folded, Status
from ..core.names import PolicyKey
from ..core.policies import documents
from ..core.policies.documents import Document, Setting
from ..core.policies.events import Placed, Position
from ..logs.change_log import LogError

_LOG = logging.getLogger(__name__)
_MOST_FAILURES = 1_000
"""Namespaces of which the last failure to load is kept; beyond that the oldest is forgotten, and would be logged again."""
_LONGEST = 1_000
"""The most characters of a document or event in words."""
_CONFIDENTIAL = "offload_policies"
_OUTCOMES = {outcome: outcome.name for outcome in Outcome}
_STATUSES = {status: status.value for status in Status}  # an enum looks up ``name`` and ``value`` slowly
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The upper bounds of the buckets of durations, in seconds. Those above the last one are counted in one more bucket."""


class Repair(NamedTuple):
    """A repair: the raw document was not the head."""

    namespace: str
    key: PolicyKey
    version: Position
    """The version of the head."""
    raw: Document | None
    """The raw document, which brokers show."""
    after: Document | None
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
    complete_as_of_ms: int
    """As of when the view is known to be complete, in milliseconds since 1970; 0: the namespace is not watched, so the log is not asked."""


class Histogram:
    """Counts durations in buckets, without a lock: one thread counts, and others may read, and get the counts of a moment ago."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        """Starts with empty buckets."""
        self.counts = [0] * (len(BOUNDS) + 1)
        """The number of durations in each bucket."""
        self.seconds = 0.0
        """The sum of all durations."""

    def count(self, seconds: float) -> None:
        """Counts one duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def cumulated(self) -> list[tuple[str, float]]:
        """Each bucket's upper bound as text, with the number of durations up to it; the last bound, ``+Inf``, counts all of them."""
        counts, upto, rows = list(self.counts), 0, []
        for bound, count in zip((*BOUNDS, None), counts, strict=True):
            upto += count
            rows.append(("+Inf" if bound is None else repr(bound), float(upto)))
        return rows


class Activity:
    """What happened in all namespaces since the server started."""

    def __init__(self) -> None:
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
        """Events of brokers of which it is not certain what they were meant to change (``core.fold.operation.Folded``)."""
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
        self.stages = {stage: Histogram() for stage in ("waiting", "sequencing", "log")}
        """How long changes take."""
        self.on_repair: Callable[[Repair, bool], None] | None = None
        """Called with each repair, and whether it is published (or withheld). Must not raise."""

    def updated(self, request: Request, answer: Result | PolicyError) -> None:
        """Counts an update that was answered."""
        if request.appended_at:
            self.stages["sequencing"].count(request.appended_at - request.began)
            if isinstance(answer, Result) and answer.outcome is Outcome.APPLIED:
                self.stages["log"].count(perf_counter() - request.appended_at)
        self.updates[answer.reason if isinstance(answer, PolicyError) else _OUTCOMES[answer.outcome]] += 1
        if not request.asked_number:
            return
        if not request.confirmed:
            self.confirmations["failed"] += 1
        else:
            written = isinstance(answer, Result) and answer.outcome is Outcome.APPLIED and not request.validate_only
            self.confirmations["overtaken" if written else "held"] += 1

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

    def folded(self, placed: Placed, folded: Folded, before: Document | None, after: Document | None) -> None:
        """Counts an event that was folded into the view that answers, and logs it if it is doubtful."""
        event = placed.event
        if event is None:
            return
        writer = "broker" if event.stamp is None else "sidecar"
        self.events[writer, _STATUSES[folded.status]] += 1
        if folded.stale and folded.status is not Status.DUPLICATE:
            self.conflicts[writer] += 1
        if folded.unexplained or folded.ambiguous:
            kind = "unexplained" if folded.unexplained else "ambiguous"
            self.unexplained += folded.unexplained
            self.ambiguous += folded.ambiguous
            level = logging.WARNING if folded.unexplained else logging.INFO
            _LOG.log(level, "%s event: %s; the document: %s", kind, event_in_words(placed, folded.settings), difference(before, after))

    def repair(self, repair: Repair, *, published: bool) -> None:
        """Counts and reports a repair that was handed to the log, or would have been if anything might be written here."""
        self.repairs["published" if published else "withheld"] += 1
        if self.on_repair is not None:
            self.on_repair(repair, published)


def difference(before: Document | None, after: Document | None) -> str:
    """Returns the settings in which two documents differ, as ``name: before -> after``, in the order of their names."""
    if after is None:
        return "nothing" if before is None else f"{document(before)} -> no document"
    if before is None:
        return f"no document -> {document(after)}"
    names = sorted(documents.differing(before, after))
    return _bounded("; ".join(f"{name}: {_value(name, before)} -> {_value(name, after)}" for name in names) or "no difference")


def document(settings: Document) -> str:
    """Returns a whole document in words."""
    return _bounded("{" + "; ".join(f"{name}: {_value(name, settings)}" for name in sorted(settings)) + "}")


def event_in_words(placed: Placed, settings: Sequence[Setting] = ()) -> str:
    """Returns where an event stands, what wrote it, and what it was meant to change, in words."""
    event = placed.event
    assert event is not None, "an event that could be read"
    changes = ", ".join(settings if event.stamp is None else event.stamp.mask)
    about = f", changing {changes}" if changes else ""
    return _bounded(f"{event.key.topic} ({event.key.scope.name}), {placed.position} of {writer_in_words(placed)}{about}")


def writer_in_words(placed: Placed) -> str:
    """Returns what wrote an event, and when, in words."""
    stamp = placed.event.stamp if placed.event is not None else None
    writer = f"a broker ({placed.producer or 'unknown producer'})" if stamp is None else f"a sidecar ({stamp.actor or 'unknown actor'})"
    return f"{writer} at {datetime.fromtimestamp(placed.published_at / 1000, UTC).isoformat(timespec='milliseconds')}"


def _value(name: Setting, settings: Document) -> str:
    value = settings.get(name)
    if value is None:
        return "unset"
    if name == _CONFIDENTIAL or name.startswith(documents.EXTRA_PREFIX):
        return f"(digest {documents.digest(value)})"
    shown: Any = MessageToDict(documents.join({name: value}), preserving_proto_field_name=True)
    for part in name.split("/", 1):  # the name, and the key of a map's entry, have been said
        shown = shown.get(part, shown)
    return json.dumps(shown, separators=(",", ":"))


def _bounded(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
