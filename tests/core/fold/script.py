"""Writes the log of one key by hand: each call is one event, folded at once."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from topicpolicies_server.core.fold.fold import FoldContext, Folded, KeyState, fold, restatement
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies import events
from topicpolicies_server.core.policies.documents import Document, Setting
from topicpolicies_server.core.policies.events import Action, Event, Placed, Position, Remembered, Stamp, StampKind

KEY = PolicyKey("persistent://public/default/orders", Scope.LOCAL)
TTL, RATE, SIZE = "message_ttl_in_seconds", "publish_rate", "max_message_size"
SUB_A, SUB_B = "subscription_policies/a", "subscription_policies/b"
CLUSTERS = "replication_clusters"


class Seen(NamedTuple):
    """What a writer had seen when it computed its event."""

    document: Document | None
    base: str


class Script:
    """The log of a key as written so far, and its state."""

    def __init__(self, context: FoldContext | None = None, *, state: KeyState | None = None) -> None:
        self.state = state or KeyState()
        self.context = context or FoldContext()
        self.log: list[Placed] = []
        self.now = 1_000_000
        self._ids = itertools.count(1)

    @property
    def document(self) -> Document | None:
        """The head."""
        return self.state.document

    @property
    def version(self) -> Position:
        """The head's version."""
        return self.state.version

    def gone(self) -> bool:
        """Returns whether there is no document."""
        return self.state.document is None

    def shown(self) -> Document | None:
        """Returns the document that brokers show."""
        return self.state.raw

    def kept(self) -> int:
        """Returns how many superseded documents are kept."""
        return len(self.state.older or ())

    def due(self) -> bool:
        """Returns whether a repair is due."""
        return self.state.repair_due

    def seen(self) -> Seen:
        """Returns what a writer has seen that has read everything."""
        return Seen(self.state.document, self.state.base)

    def put(self, event: Event | None, *, wait: int = 1) -> Folded:
        """Appends any event, some milliseconds after the one before."""
        self.now += wait
        placed = Placed(0, f"{len(self.log) + 1:06d}", event, self.now, "writer")
        self.log.append(placed)
        return fold(self.state, placed, self.context)

    def update(self, values: dict[Setting, bytes | None], *, on: Seen | None = None, wait: int = 1, **stamp: Any) -> Folded:
        """Appends a sidecar's update that sets and clears settings."""
        known = self.state.history if on is None else None
        on = on or self.seen()
        document = change(on.document, values)
        facts: dict[str, Any] = {"mask": tuple(name.replace("/", ".") for name in values), "history": known, **stamp}
        return self.put(self.event(document, on, **facts), wait=wait)

    def event(self, document: Document | None, on: Seen, **stamp: Any) -> Event:
        """Returns the event of an operation."""
        number = next(self._ids)
        facts: dict[str, Any] = {
            "event_id": f"event-{number}",
            "kind": StampKind.UPDATE,
            "request_id": f"request-{number}",
            "digest": "digest",
            "base": on.base,
        }
        facts.update(stamp)
        return Event(KEY, Action.UPDATE, document, Stamp(**facts))

    def delete(self, *, on: Seen | None = None, **stamp: Any) -> Folded:
        """Appends a sidecar's deletion of the document."""
        return self.put(self.event({}, on or self.seen(), kind=StampKind.DELETE, **stamp))

    def restate(self) -> Folded:
        """Appends the repair that is due."""
        assert self.due()
        return self.put(restatement(KEY, self.state, f"repair-{len(self.log)}"))

    def claim(
        self,
        document: Document | None,
        version: Position,
        *,
        since: Position | None = None,
        upto: Position | None = None,
        remembered: tuple[Remembered, ...] = (),
        wait: int = 1,
        **event: Any,
    ) -> Folded:
        """Appends another sidecar's restatement of a head, right or wrong; it has seen as much as this one, unless given otherwise."""
        kind = StampKind.REPAIR if document is not None else StampKind.TOMBSTONE
        mine = self.state
        known = events.Seen(mine.since if since is None else since, mine.upto if upto is None else upto)
        stamp = Stamp(f"claim-{len(self.log)}", kind, head_version=version, remembered=remembered, history=known)
        return self.put(Event(KEY, Action.UPDATE, document if document is not None else {}, stamp, **event), wait=wait)

    def broker(self, values: dict[Setting, bytes | None], *, on: Document | None = None, wait: int = 1, **event: Any) -> Folded:
        """Appends a broker's change of some settings, computed from the document that it shows or from an older one."""
        base = self.state.raw if on is None else on
        return self.write(change(base, values), wait=wait, **event)

    def write(self, document: Document | None, *, action: Action = Action.UPDATE, wait: int = 1, **event: Any) -> Folded:
        """Appends a broker's document; None removes it."""
        return self.put(Event(KEY, action, document, **event), wait=wait)


def change(document: Document | None, values: dict[Setting, bytes | None]) -> dict[Setting, bytes]:
    """Returns a document with some settings set or cleared."""
    merged = {**(document or {}), **values}
    return {name: value for name, value in merged.items() if value is not None}


def join(full: Script, *, last: int = 0, late: int = 0) -> Script:
    """Returns a sidecar that joins ``late`` milliseconds after the last event, and reads the ``last`` events of the log, or all."""
    script = Script(full.context._replace(joining=True, joined_at=full.now + late))
    for placed in full.log[-last:]:
        fold(script.state, placed, script.context)
    script.context = script.context._replace(joining=False)
    script.log = list(full.log)
    script.now = full.now + late
    return script
