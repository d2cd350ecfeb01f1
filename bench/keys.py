"""The cost of reading by the number of keys of a namespace: none of the costs may grow with it.

    python -m bench.keys [--keys 100,10000,100000,1000000] [--seconds 0.5]

Everything runs in one thread, without gRPC and without a log: a view takes events beside other writers, and a hub notifies its watchers.
Times are processor time, the mean over as many repetitions as fit into ``--seconds``.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import sys
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.table import Table

from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.fold.recent import RECENT
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Settings
from topicpolicies_server.core.policies.events import Action, Event, Placed, Remembered, Stamp, StampKind
from topicpolicies_server.core.reading.cell import Head
from topicpolicies_server.core.reading.tokens import Mode, Selection, Token
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.core.reading.watch import Watcher, WatchHub

KEYS = (100, 10_000, 100_000, 1_000_000)
TOPICS = 10_000
"""Topics of the watcher of many topics."""
PAGE = 100
"""Documents per page."""
SECONDS = 0.5
LEAST = 3
"""The minimum number of repetitions, however long one takes."""
_LOG = "bench"
_SETTING = "max_producer_per_topic"
_DOCUMENTS: list[Settings] = [{_SETTING: bytes([0x80, 0x01, number])} for number in range(100)]
_SCOPES = frozenset({Scope.LOCAL})


class Namespace:
    """A view of this many keys, each changed once, and the events that change them further."""

    def __init__(self, keys: int) -> None:
        self.keys = [_key(number) for number in range(keys)]
        self.view = View(FoldContext(), ("",))
        self._rows = itertools.count(1)
        self._new = itertools.count(keys)
        for key in self.keys:
            self.view.take(self.event(key))
        self.hub = WatchHub(self.view, Token(_LOG, (self._position(next(self._rows)),)))

    def event(self, key: PolicyKey) -> Placed:
        """Returns the next event of the log: an update of a key, a millisecond after the one before."""
        row = next(self._rows)
        stamp = Stamp(f"event-{row}", StampKind.UPDATE, request_id=f"request-{row}", mask=(_SETTING,), base="unseen")
        return Placed(0, self._position(row), Event(key, Action.UPDATE, _DOCUMENTS[row % 100], stamp), row)

    def new_key(self) -> PolicyKey:
        """Returns a key that the view does not know, in the middle of the others."""
        return _key(next(self._new), "between")

    def in_turn(self) -> Iterator[PolicyKey]:
        """Yields all keys, again and again."""
        return itertools.cycle(self.keys)

    def changes(self, keys: Iterator[PolicyKey]) -> Iterator[Head]:
        """Yields the heads that result from changes of these keys."""
        for key in keys:
            change = self.view.take(self.event(key)).head
            assert change is not None
            yield change

    @staticmethod
    def _position(row: int) -> str:
        return f"{row:012d}"


def _key(number: int, place: str = "topic") -> PolicyKey:
    return PolicyKey(f"persistent://bench/keys/{place}-{number:08d}", Scope.LOCAL)


def microseconds(prepare: Callable[[], Callable[[], object]], seconds: float) -> float:
    """Returns the mean time of the functions that ``prepare`` returns; the time of ``prepare`` itself is not counted."""
    spent, times, until = 0.0, 0, time.process_time() + seconds
    while times < LEAST or time.process_time() < until:
        work = prepare()
        begin = time.process_time()
        work()
        spent += time.process_time() - begin
        times += 1
    return spent / times * 1e6


def measure(keys: int, seconds: float) -> Iterator[tuple[str, float]]:
    """Yields each operation with its cost in microseconds, in a namespace of this many keys."""
    namespace = Namespace(keys)
    view = namespace.view
    gc.collect()
    gc.freeze()  # the collections that are measured along do not examine what was loaded
    yield "take an event, keys in turn", _taking(namespace, namespace.in_turn(), seconds)
    yield "take an event of one hot key", _taking(namespace, itertools.repeat(namespace.keys[keys // 2]), seconds)
    after = namespace.keys[keys // 2]
    yield f"list {PAGE} from the middle", microseconds(lambda: lambda: view.page(_SCOPES, after, PAGE), seconds)

    def one_more() -> Callable[[], object]:
        view.take(namespace.event(namespace.new_key()))
        return lambda: view.page(_SCOPES, after, PAGE)

    yield "  after a new key", microseconds(one_more, seconds)
    one = Selection(frozenset({namespace.keys[keys // 2].topic}), _SCOPES)
    many = Selection(frozenset(key.topic for key in namespace.keys[:TOPICS]), _SCOPES)
    everything = Selection(None, _SCOPES)
    for mode in (Mode.LATEST, Mode.EVERY):
        name = mode.name
        yield f"{name}, one topic: a change of it", _watching(namespace, one, mode, itertools.repeat(namespace.keys[keys // 2]), seconds)
        yield f"{name}, {TOPICS:,} topics (or all)", _watching(namespace, many, mode, itertools.cycle(namespace.keys[:TOPICS]), seconds)
        yield f"{name}, the namespace, keys in turn", _watching(namespace, everything, mode, namespace.in_turn(), seconds)
        hot = itertools.repeat(namespace.keys[keys // 2])
        yield f"{name}, the namespace, a hot key", _watching(namespace, everything, mode, hot, seconds)
    yield "remember a request", _remembering(namespace, seconds)
    gc.unfreeze()


_BATCH = 32
"""How often an operation that takes about a microsecond is repeated per measurement."""


def _taking(namespace: Namespace, keys: Iterator[PolicyKey], seconds: float) -> float:
    def prepare() -> Callable[[], object]:
        events = [namespace.event(key) for key in itertools.islice(keys, _BATCH)]
        return lambda: [namespace.view.take(event) for event in events]

    return microseconds(prepare, seconds) / _BATCH


def _watching(namespace: Namespace, selection: Selection, mode: Mode, keys: Iterator[PolicyKey], seconds: float) -> float:
    """Measures publishing a change and its taking by a watcher, without folding the event."""
    hub = namespace.hub
    watcher: Watcher = hub.subscribe(selection, mode, None, lambda: None)
    while watcher.take(1_000_000).more:
        pass
    changes = namespace.changes(keys)

    def prepare() -> Callable[[], object]:
        change = next(changes)
        assert change.placed is not None
        token = Token(_LOG, (change.placed.position,))

        def work() -> None:
            hub.publish(change)
            hub.token = token
            taken = watcher.take(64).heads
            assert taken == [change]

        return work

    figure = microseconds(prepare, seconds)
    hub.unsubscribe(watcher)
    return figure


def _remembering(namespace: Namespace, seconds: float) -> float:
    recent = namespace.view.recent
    numbers = itertools.count()
    key = namespace.keys[0]
    for number in itertools.islice(numbers, RECENT):
        recent.add(key, Remembered(f"r{number}", "", "1", "0"))

    def prepare() -> Callable[[], object]:
        requests = [Remembered(f"r{number}", "", "1", "0") for number in itertools.islice(numbers, _BATCH)]

        def work() -> None:
            for request in requests:
                recent.add(key, request)

        return work

    return microseconds(prepare, seconds) / _BATCH


def main() -> int:
    """Measures and prints one table."""
    parser = argparse.ArgumentParser(prog="python -m bench.keys", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", default=",".join(map(str, KEYS)), help="the numbers of keys, separated by commas")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="processor time for each figure")
    options = parser.parse_args()
    numbers = [int(number) for number in options.keys.split(",")]
    figures: dict[str, list[float]] = {}
    for number in numbers:
        for name, figure in measure(number, options.seconds):
            figures.setdefault(name, []).append(figure)
    table = Table(title="Microseconds by the number of keys")
    table.add_column("what")
    for number in numbers:
        table.add_column(f"{number:,}", justify="right")
    for name, row in figures.items():
        table.add_row(name, *(f"{figure:,.1f}" for figure in row))
    Console(width=110).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
