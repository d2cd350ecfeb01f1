"""All interleavings of a small world: one sidecar, one broker, one key, a few changes; optionally a second sidecar that joins.

    python -m tests.core.fold.exhaustive 2 2 chained
    python -m tests.core.fold.exhaustive 1 1 joins

With ``joins``, the log is compacted once, at any point; a second sidecar starts at any point, reads what is left, and repairs; and once, at
any point, more than 2 W pass. A repair can be late by any time: everything else can happen before it.

Every reachable state is visited once. A state is the log, how far each participant has read it, the events on their way to it, and how many
changes are left. A wrong head is either reported with its log, or counted if it is of a kind that the fold cannot prevent.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from topicpolicies_server.core.fold import fold as rules
from topicpolicies_server.core.fold.fold import FoldContext, Folded, KeyState
from topicpolicies_server.core.fold.keystate import WINDOW_MS
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Document, Setting
from topicpolicies_server.core.policies.events import Action, Event, Placed, Remembered, Stamp, StampKind

KEY = PolicyKey("persistent://t/n/x", Scope.LOCAL)
MANY = 25
"""More events than a log gets unless repairs loop."""
SETTINGS = ("publish_rate", "compaction_threshold")


@dataclass(frozen=True)
class Intent:
    """A change of a document: it sets and clears settings, or deletes the document."""

    values: Mapping[Setting, bytes | None] = field(default_factory=dict)
    delete: bool = False

    def apply(self, document: Document | None) -> Document | None:
        """Returns the document after the change."""
        if self.delete:
            return None
        return {name: value for name, value in {**(document or {}), **self.values}.items() if value is not None}


class Sent(NamedTuple):
    """An event, the intent of its writer, and the document that it was computed from."""

    event: Event
    intent: Intent | None
    base: Document | None

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class Node(NamedTuple):
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
    horizon: int = 0
    """How many of the events have been compacted."""
    late: int = 0
    """Events from this one on were published more than 2 W after those before; 0: none."""
    joined: tuple[int, int] | None = None
    """Of the second sidecar: how many events there were when it started, and how many of them had been compacted; None: not yet."""
    joiner_read: int = 0
    """How many events the second sidecar has read."""
    joiner_sent: tuple[int, ...] = ()
    may_compact: bool = False
    may_wait: bool = False
    may_join: bool = False


class Head(NamedTuple):
    """The result of folding a log."""

    state: KeyState
    truth: Document | None
    """The document that results from the intents."""


class Search:
    """One exhaustive search."""

    def __init__(self, sidecar: int, broker: int, *, chained: bool, joins: bool = False) -> None:
        """Prepares a search with so many changes by the sidecar and the broker; a chained broker (4.2.4) waits for its own events."""
        self.chained = chained
        self.start = Node(sidecar_left=sidecar, broker_left=broker, may_compact=joins, may_wait=joins, may_join=joins)
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._sent: list[Sent] = []
        self._numbers: dict[object, int] = {}
        self._heads: dict[tuple[tuple[int, ...], int], Head] = {}
        self._guesses: dict[tuple[tuple[int, ...], int, int], KeyState] = {}
        self._shown: dict[tuple[int, ...], Document | None] = {(): None}

    def run(self) -> Counter[str]:
        """Visits every state.

        Raises:
            AssertionError: repairs loop.
        """
        seen = {self.start}
        todo = [self.start]
        while todo:
            node = todo.pop()
            assert len(node.log) < MANY, f"repairs do not loop: {[self._sent[number].event for number in node.log]}"
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
        head = self._head(node.log[: node.sidecar_read], node.late).state
        if node.sidecar_left:
            for intent in self._intents("s", node.sidecar_left):
                number = self._operation(node, head, intent)
                yield node._replace(sidecar_sent=(*node.sidecar_sent, number), sidecar_left=node.sidecar_left - 1)
        if node.sidecar_sent:
            log = (*node.log, node.sidecar_sent[0])
            self._head(log, node.late)
            yield node._replace(log=log, sidecar_sent=node.sidecar_sent[1:])
        if node.sidecar_read < len(node.log):
            yield node._replace(sidecar_read=node.sidecar_read + 1)
        elif not node.sidecar_sent and head.repair_due:
            number = self._number(("repair", node.log, node.late), Sent(rules.restatement(KEY, head, f"r{len(node.log)}"), None, None))
            yield node._replace(sidecar_sent=(number,))
        waiting = self.chained and (node.broker_sent or any(self._is_brokers(number) for number in node.log[node.broker_read :]))
        if node.broker_left and not waiting:
            shown = self._shown_after(node.log[: node.broker_read])
            for intent in self._intents("b", node.broker_left, shown):
                event = Event(KEY, Action.DELETE if intent.delete else Action.UPDATE, intent.apply(shown))
                number = self._number((_frozen(event.document), repr(intent), _frozen(shown)), Sent(event, intent, shown))
                yield node._replace(broker_sent=(*node.broker_sent, number), broker_left=node.broker_left - 1)
        if node.broker_sent:
            log = (*node.log, node.broker_sent[0])
            self._head(log, node.late)
            yield node._replace(log=log, broker_sent=node.broker_sent[1:])
        if node.broker_read < len(node.log):
            yield node._replace(broker_read=node.broker_read + 1)
        if node.log:
            yield from self._joining(node)

    def _joining(self, node: Node) -> Iterator[Node]:
        """Yields the states that follow by a compaction, by the passing of time, or by a step of the second sidecar."""
        length = len(node.log)
        if node.may_compact and not node.joined:
            yield node._replace(horizon=length, may_compact=False)
        if node.may_wait:
            yield node._replace(late=length + 1, may_wait=False)
        if node.may_join and node.horizon:
            yield node._replace(joined=(length, node.horizon), may_join=False)
        if node.joined is None:
            return
        if node.joiner_sent:
            log = (*node.log, node.joiner_sent[0])
            self._head(log, node.late)
            yield node._replace(log=log, joiner_sent=node.joiner_sent[1:])
        if node.joiner_read < length:
            yield node._replace(joiner_read=node.joiner_read + 1)
        elif not node.joiner_sent and (guess := self._guess(node)).repair_due:
            event = rules.restatement(KEY, guess, f"j{length}")
            number = self._number(("guess", node.log, node.late, node.joined), Sent(event, None, None))
            yield node._replace(joiner_sent=(number,))

    def _guess(self, node: Node) -> KeyState:
        """Returns the second sidecar's state, folded from what it has read."""
        assert node.joined is not None, "it has started"
        started, horizon = node.joined
        log = node.log[: node.joiner_read]
        state = self._guesses.get((log, node.late, horizon))
        if state is None:
            state = KeyState()
            for index, number in enumerate(log):
                event = self._sent[number].event
                if index < horizon and (index < horizon - 1 or event.document is None):
                    continue  # it was compacted away
                context = FoldContext(joining=index < horizon, joined_at=_placed(started, event, node.late).published_at)
                rules.fold(state, _placed(index + 1, event, node.late), context)
            self._guesses[log, node.late, horizon] = state
        return state

    def _intents(self, who: str, left: int, present: Document | None = None) -> Iterator[Intent]:
        for name in SETTINGS:
            yield Intent({name: f"{who}{left}".encode()})
        yield Intent({SETTINGS[0]: None})
        if left == 1:
            yield Intent(delete=True)
        if present and SETTINGS[1] in present:
            yield Intent({SETTINGS[1]: present[SETTINGS[1]]})  # changes nothing

    def _operation(self, node: Node, head: KeyState, intent: Intent) -> int:
        document, base, known = head.document, head.base, head.remembered
        for number in node.sidecar_sent:
            earlier = self._sent[number]
            assert earlier.event.stamp is not None
            if earlier.intent is not None:
                document, base = earlier.intent.apply(document), earlier.event.stamp.event_id
                known = (*known, Remembered(earlier.event.stamp.request_id, "", "", ""))
        name = f"s{node.sidecar_left}"
        kind = StampKind.DELETE if intent.delete else StampKind.UPDATE
        stamp = Stamp(name, kind, request_id=name, mask=tuple(intent.values), base=base, remembered=known)
        event = Event(KEY, Action.UPDATE, intent.apply(document) or {}, stamp)
        return self._number((name, repr(intent), base, known, _frozen(event.document)), Sent(event, intent, document))

    def _number(self, what: object, sent: Sent) -> int:
        number = self._numbers.get(what)
        if number is None:
            number = self._numbers[what] = len(self._sent)
            self._sent.append(sent)
        return number

    def _is_brokers(self, number: int) -> bool:
        return self._sent[number].event.stamp is None

    # -- what must hold --------------------------------------------------------------------------------------------------

    def _head(self, log: tuple[int, ...], late: int) -> Head:
        if not log:
            return Head(KeyState(), None)
        late = late if late <= len(log) else 0
        head = self._heads.get((log, late))
        if head is None:
            before = self._head(log[:-1], late)
            sent = self._sent[log[-1]]
            state = _copy(before.state)
            folded = rules.fold(state, _placed(len(log), sent.event, late), FoldContext())
            truth = before.truth
            if sent.intent is not None:
                truth = sent.intent.apply(truth)
                if sent.event.stamp is None and not truth and before.state.document is None and sent.base is not None:
                    truth = None
            self._check(log, late, before.state, state, folded, truth, sent)
            head = self._heads[log, late] = Head(state, state.document)
        return head

    def _check(
        self, log: tuple[int, ...], late: int, before: KeyState, state: KeyState, folded: Folded, truth: Document | None, sent: Sent
    ) -> None:
        self.counts["logs"] += 1
        self.counts["repairs"] += sent.intent is None
        self.counts["stale"] += folded.stale
        if folded.changed and not (folded.version > before.version and folded.previous == before.version):
            self._report(log, "versions grow and link up")
        alone = KeyState()
        rules.fold(alone, _placed(len(log), sent.event, 0), FoldContext(joining=True))
        same = alone.document == state.document and (state.document is None or alone.version == state.version)
        if same and state.document is not None and sent.event.stamp is not None:  # a broker's event remembers nothing
            same = {request.request_id for request in state.remembered} <= {request.request_id for request in alone.remembered}
        if state.repair_due == (same and alone.raw == state.raw and (state.document is not None or state.raw is None)):
            self._report(log, "a repair is due exactly if the newest event alone says something else")
        if (state.document or {}) == (truth or {}):
            return
        if sent.event.stamp is None and (sent.event.document or {}) == (sent.base or {}):
            self.counts["wrong, it changed nothing"] += 1
        elif folded.ambiguous:
            self.counts["wrong, ambiguous"] += 1
        elif folded.unexplained and late:
            self.counts["wrong, a broker was more than W behind"] += 1
        else:
            self._report(log, "nothing acknowledged is undone")

    def _at_rest(self, node: Node) -> None:
        self.counts["ends"] += 1
        state = self._head(node.log, node.late).state
        if state.repair_due or state.raw != state.document or self._shown_after(node.log) != state.document:
            self._report(node.log, "in the end brokers show the head")
        if node.joined is not None:
            self.counts["joined"] += 1
            self.counts["a newcomer saw a late repair of what compaction had left"] += self._repaired_late(node)
            guess = self._guess(node)
            if guess.document != state.document or (state.document is not None and guess.version != state.version):
                self._report(node.log, f"in the end all agree (joined at {node.joined}, late from {node.late})")

    def _repaired_late(self, node: Node) -> bool:
        """Returns whether the second sidecar saw a stale document that compaction had left, and its repair more than 2 W later."""
        assert node.joined is not None, "it has started"
        horizon = node.joined[1]
        if not 0 < horizon < node.late or not self._head(node.log[:horizon], node.late).state.repair_due:
            return False
        following = node.log[horizon : node.late - 1]
        repairs = [number for number in node.log[node.late - 1 :] if self._sent[number].intent is None]
        return all(self._sent[number].intent is not None for number in following) and bool(repairs)

    def _shown_after(self, log: tuple[int, ...]) -> Document | None:
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
    copy.superseded_ids = None if state.superseded_ids is None else dict(state.superseded_ids)
    return copy


def _placed(length: int, event: Event, late: int) -> Placed:
    return Placed(0, f"{length:04d}", event, 1_000 + length + (3 * WINDOW_MS if 0 < late <= length else 0))


def _frozen(document: Document | None) -> object:
    return None if document is None else tuple(sorted(document.items()))


def main(arguments: list[str]) -> None:
    """Runs one search."""
    search = Search(int(arguments[0]), int(arguments[1]), chained="chained" in arguments[2:], joins="joins" in arguments[2:])
    for name, count in sorted(search.run().items()):
        print(f"{count:9} {name}")
    for wrong in search.wrong[:3]:
        print(wrong)
    print(len(search.wrong), "wrong")


if __name__ == "__main__":
    main(sys.argv[1:])
