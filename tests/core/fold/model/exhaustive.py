"""All interleavings of a small world: one sidecar, one broker, one key, a few changes.

    python -m tests.core.fold.model.exhaustive 2 2 chained

Every state that can be reached is visited once. A state is what is in the log, what each has read of it, what is on its way, and how many
changes are left. What is wrong is either reported with the log that shows it, or of a kind that cannot be promised.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from topicpolicies_server.core import fold as rules
from topicpolicies_server.core.documents import Settings
from topicpolicies_server.core.events import Action, Event, Placed, Stamp, StampKind
from topicpolicies_server.core.fold import FoldContext, Folded, KeyState
from topicpolicies_server.core.names import PolicyKey, Scope

from .intents import Intent

KEY = PolicyKey("persistent://t/n/x", Scope.LOCAL)
SETTINGS = ("publish_rate", "compaction_threshold")


class Sent(NamedTuple):
    """An event and what it was meant to do."""

    event: Event
    intent: Intent | None
    base: Settings | None

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@dataclass(frozen=True, slots=True)
class Node:
    """A state of the small world."""

    log: tuple[int, ...] = ()
    """The events in the log, by their numbers among all that were ever sent."""
    sidecar_read: int = 0
    broker_read: int = 0
    sidecar_sent: tuple[int, ...] = ()
    """On their way into the log, in order."""
    broker_sent: tuple[int, ...] = ()
    sidecar_left: int = 0
    broker_left: int = 0


class Head(NamedTuple):
    """What the fold makes of a log."""

    state: KeyState
    truth: Settings | None
    """What the intents make of it."""


class Search:
    """One exhaustive search."""

    def __init__(self, sidecar: int, broker: int, *, chained: bool) -> None:
        """How many changes the sidecar and the broker make; a chained broker (4.2.4) waits for its own events."""
        self.chained = chained
        self.start = Node(sidecar_left=sidecar, broker_left=broker)
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._sent: list[Sent] = []
        self._numbers: dict[object, int] = {}
        self._heads: dict[tuple[int, ...], Head] = {(): Head(KeyState(), None)}
        self._shown: dict[tuple[int, ...], Settings | None] = {(): None}

    def run(self) -> Counter[str]:
        """Visits every state."""
        seen = {self.start}
        todo = [self.start]
        while todo:
            node = todo.pop()
            self.counts["states"] += 1
            following = list(self._following(node))
            if not following:
                self._at_rest(node)
            for each in following:
                if each not in seen:
                    seen.add(each)
                    todo.append(each)
        return self.counts

    # -- what can happen next --------------------------------------------------------------------------------------------

    def _following(self, node: Node) -> Iterator[Node]:
        head = self._head(node.log[: node.sidecar_read]).state
        if node.sidecar_left:
            for intent in self._intents("s", node.sidecar_left):
                number = self._operation(node, head, intent)
                yield replace(node, sidecar_sent=(*node.sidecar_sent, number), sidecar_left=node.sidecar_left - 1)
        if node.sidecar_sent:
            log = (*node.log, node.sidecar_sent[0])
            self._head(log)
            yield replace(node, log=log, sidecar_sent=node.sidecar_sent[1:])
        if node.sidecar_read < len(node.log):
            yield replace(node, sidecar_read=node.sidecar_read + 1)
        elif not node.sidecar_sent and rules.repair_due(head):
            number = self._number(("repair", node.log), Sent(rules.restatement(KEY, head, f"r{len(node.log)}"), None, None))
            yield replace(node, sidecar_sent=(number,))
        waiting = self.chained and (node.broker_sent or any(self._is_brokers(number) for number in node.log[node.broker_read :]))
        if node.broker_left and not waiting:
            shown = self._shown_after(node.log[: node.broker_read])
            for intent in self._intents("b", node.broker_left, shown):
                event = Event(KEY, Action.DELETE if intent.delete else Action.UPDATE, intent.apply(shown))
                number = self._number((_frozen(event.document), repr(intent), _frozen(shown)), Sent(event, intent, shown))
                yield replace(node, broker_sent=(*node.broker_sent, number), broker_left=node.broker_left - 1)
        if node.broker_sent:
            log = (*node.log, node.broker_sent[0])
            self._head(log)
            yield replace(node, log=log, broker_sent=node.broker_sent[1:])
        if node.broker_read < len(node.log):
            yield replace(node, broker_read=node.broker_read + 1)

    def _intents(self, who: str, left: int, present: Settings | None = None) -> Iterator[Intent]:
        for name in SETTINGS:
            yield Intent({name: f"{who}{left}".encode()})
        yield Intent({SETTINGS[0]: None})
        if left == 1:
            yield Intent(delete=True)
        if present and SETTINGS[1] in present:
            yield Intent({SETTINGS[1]: present[SETTINGS[1]]})  # nothing new

    def _operation(self, node: Node, head: KeyState, intent: Intent) -> int:
        document, base = head.document, head.base
        for number in node.sidecar_sent:
            earlier = self._sent[number]
            assert earlier.event.stamp is not None
            if earlier.intent is not None:
                document, base = earlier.intent.apply(document), earlier.event.stamp.event_id
        name = f"s{node.sidecar_left}"
        kind = StampKind.DELETE if intent.delete else StampKind.UPDATE
        stamp = Stamp(name, kind, request_id=name, mask=intent.mask(), base=base)
        event = Event(KEY, Action.UPDATE, intent.apply(document) or {}, stamp)
        return self._number((name, repr(intent), base, _frozen(event.document)), Sent(event, intent, document))

    def _number(self, what: object, sent: Sent) -> int:
        number = self._numbers.get(what)
        if number is None:
            number = self._numbers[what] = len(self._sent)
            self._sent.append(sent)
        return number

    def _is_brokers(self, number: int) -> bool:
        return self._sent[number].event.stamp is None

    # -- what must hold --------------------------------------------------------------------------------------------------

    def _head(self, log: tuple[int, ...]) -> Head:
        head = self._heads.get(log)
        if head is None:
            before = self._head(log[:-1])
            sent = self._sent[log[-1]]
            state = _copy(before.state)
            folded = rules.fold(state, _placed(len(log), sent.event), FoldContext())
            truth = before.truth
            if sent.intent is not None:
                truth = sent.intent.apply(truth)
                if sent.event.stamp is None and not truth and before.state.document is None and sent.base is not None:
                    truth = None
            self._check(log, before.state, state, folded, truth, sent)
            head = self._heads[log] = Head(state, state.document)
        return head

    def _check(self, log: tuple[int, ...], before: KeyState, state: KeyState, folded: Folded, truth: Settings | None, sent: Sent) -> None:
        self.counts["logs"] += 1
        self.counts["repairs"] += sent.intent is None
        self.counts["stale"] += folded.stale
        if folded.changed and not (folded.version > before.version and folded.previous == before.version):
            self._report(log, "versions grow and link up")
        alone = KeyState()
        rules.fold(alone, _placed(len(log), sent.event), FoldContext(joining=True))
        same = alone.document == state.document and (state.document is None or alone.version == state.version)
        if state.due == (same and alone.live == state.live and (state.document is not None or state.live is None)):
            self._report(log, "a repair is due exactly if the newest event alone says something else")
        if (state.document or {}) == (truth or {}):
            return
        if sent.event.stamp is None and (sent.event.document or {}) == (sent.base or {}):
            self.counts["wrong, it changed nothing"] += 1
        elif folded.ambiguous:
            self.counts["wrong, ambiguous"] += 1
        else:
            self._report(log, "nothing acknowledged is undone")

    def _at_rest(self, node: Node) -> None:
        self.counts["ends"] += 1
        state = self._head(node.log).state
        if state.due or state.live != state.document or self._shown_after(node.log) != state.document:
            self._report(node.log, "in the end brokers show the head")

    def _shown_after(self, log: tuple[int, ...]) -> Settings | None:
        if log not in self._shown:
            self._shown[log] = self._sent[log[-1]].event.document
        return self._shown[log]

    def _report(self, log: tuple[int, ...], promise: str) -> None:
        self.wrong.append(f"{promise}:\n" + "\n".join(f"  {self._sent[number].event}" for number in log))


def _copy(state: KeyState) -> KeyState:
    copy = KeyState()
    for name in KeyState.__slots__:
        setattr(copy, name, getattr(state, name))
    copy.older = None if state.older is None else list(state.older)
    copy.seen = None if state.seen is None else dict(state.seen)
    return copy


def _placed(length: int, event: Event) -> Placed:
    return Placed(0, f"{length:04d}", event, 1_000 + length)


def _frozen(document: Settings | None) -> object:
    return None if document is None else tuple(sorted(document.items()))


def main(arguments: list[str]) -> None:
    """Runs one search."""
    search = Search(int(arguments[0]), int(arguments[1]), chained=arguments[2:] == ["chained"])
    for name, count in sorted(search.run().items()):
        print(f"{count:9} {name}")
    for wrong in search.wrong[:3]:
        print(wrong)
    print(len(search.wrong), "wrong")


if __name__ == "__main__":
    main(sys.argv[1:])
