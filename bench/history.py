"""How long the first page of a history takes, by the length of the history; and what keeping a history costs the updates.

    python -m bench.history               both
    python -m bench.history --pages       the first only

The pages are requested over gRPC from a server with a history of the given number of events: 100 topics, 10 actors, 10 entries per page.
The updates are made in turn on a server with a history and on one without; a ratio is the median of the ratios of the rounds. Server and
clients share one process here, whose processor time says more than its speed on a machine with other work.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import grpc
import uvloop
from rich.console import Console
from rich.table import Table

from bench.load import Calls, closed_loop, update_calls
from topicpolicies.v1 import history_pb2
from topicpolicies.v1.history_pb2_grpc import PolicyHistoryServiceStub
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, parse_address
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies import documents
from topicpolicies_server.core.policies.events import Action, Event, Placed, Stamp, StampKind
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.history import Bounds, open_history
from topicpolicies_server.history.writer import PAUSE_SECONDS
from topicpolicies_server.rpc.server import Server

SIZES = (1_000, 10_000, 100_000)
NAMESPACE = "public/default"
_TOPICS, _ACTORS = 100, 10
_CALLS = 50
_DAY_MS = 86_400_000


class PageTime(NamedTuple):
    """The times of the first page of one query."""

    question: str
    events: int
    fastest_ms: float
    """The time when nothing else runs."""
    p50_ms: float
    p99_ms: float


class Round(NamedTuple):
    """One closed loop of updates."""

    per_second: float
    cpu_us: float
    """Processor time per update in microseconds, including that of its client."""


class Cost(NamedTuple):
    """Updates with a history and without one, medians over the rounds."""

    keys: int
    kept: Round
    bare: Round
    ratio: Round
    """The median of the ratios of the rounds."""


class _Rows:
    """A change log without compaction, as far as the history uses it."""

    identity = "bench"
    partitions = 1
    shared = False
    cluster = ""

    def follows(self, _earlier: str, _later: str) -> bool:
        return True

    def complete_after(self, _partition: int) -> str:
        return ""


async def fill(path: Path, events: int, begin: int) -> None:
    """Writes a history of this many events, one second apart."""
    history = open_history(path, Bounds(100.0 * 366 * 86_400, 1 << 40))
    recorder = history.recorder(NAMESPACE)
    recorder.opened(_Rows())  # type: ignore[arg-type]
    view = View(FoldContext(sole_writer=True))
    for number in range(1, events + 1):
        placed = _event(number, begin)
        assert placed.event is not None, "it was just made"
        before = view.head(placed.event.key)
        folded, change, *_ = view.take(placed)
        assert change is not None, "each of them changes something"
        recorder.noted([(placed, before, folded, change)])
    recorder.caught_up()
    await history.close()


def _event(number: int, begin: int) -> Placed:
    key = PolicyKey(f"persistent://{NAMESPACE}/topic-{number % _TOPICS}", Scope.LOCAL)
    document = documents.split(TopicPolicies(max_producer_per_topic=number, message_ttl_in_seconds=60))
    request_id, actor = f"{number:032x}", f"actor-{number // 7 % _ACTORS}"
    stamp = Stamp(request_id, StampKind.UPDATE, request_id, actor=actor, mask=("max_producer_per_topic", "message_ttl_in_seconds"))
    return Placed(0, f"{number:012d}", Event(key, Action.UPDATE, document, stamp), begin + number * 1000)


@asynccontextmanager
async def _serving(directory: Path, history: Path | None) -> AsyncIterator[grpc.aio.Channel]:
    config = ServerConfig(
        log=EmbeddedLogConfig(path=directory / "policies.db"),
        listen=parse_address("127.0.0.1:0"),
        history=HistoryConfig(path=history) if history is not None else None,
    )
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
        yield channel


async def pages(sizes: Sequence[int] = SIZES) -> list[PageTime]:
    """Measures the first page of every kind of query, for every length of the history."""
    found: list[PageTime] = []
    for events in sizes:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            begin = time.time_ns() // 1_000_000 - _DAY_MS * 30
            await fill(directory / "history.db", events, begin)
            async with _serving(directory, directory / "history.db") as channel:
                for question, request in _questions(begin + events * 500).items():
                    found.append(await _timed(channel, question, request, events))
    return found


def _questions(middle: int) -> dict[str, history_pb2.ListHistoryRequest]:
    topic = f"persistent://{NAMESPACE}/topic-7"
    since = history_pb2.ListHistoryRequest(namespace=NAMESPACE, oldest_first=True)
    since.start_time.FromMilliseconds(middle)
    return {
        "a namespace's newest": history_pb2.ListHistoryRequest(namespace=NAMESPACE),
        "a namespace's oldest": history_pb2.ListHistoryRequest(namespace=NAMESPACE, oldest_first=True),
        "a namespace's from a time on": since,
        "an actor's newest": history_pb2.ListHistoryRequest(namespace=NAMESPACE, actor="actor-3"),
        "a topic's newest": history_pb2.ListHistoryRequest(topic=topic),
        "an actor's oldest of a topic": history_pb2.ListHistoryRequest(topic=topic, actor="actor-3", oldest_first=True),
    }


async def _timed(channel: grpc.aio.Channel, question: str, request: history_pb2.ListHistoryRequest, events: int) -> PageTime:
    stub = PolicyHistoryServiceStub(channel)
    times = []
    request.page_size = 10  # as many as the smallest history has of each kind
    for _ in range(_CALLS):
        begin = time.perf_counter()
        answer: history_pb2.ListHistoryResponse = await stub.ListHistory(request)
        times.append(time.perf_counter() - begin)
        if not answer.entries:
            raise AssertionError(f"{question} of {events} events came to nothing")
    cuts = statistics.quantiles(times, n=100)
    return PageTime(question, events, min(times) * 1000, cuts[49] * 1000, cuts[98] * 1000)


async def cost(rounds: int, seconds: float, in_flight: int = 64) -> list[Cost]:
    """Measures updates with a history and without one, on the embedded log, in turn."""
    async with AsyncExitStack() as stack:
        directories = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        kept = await stack.enter_async_context(_serving(directories[0], directories[0] / "history.db"))
        bare = await stack.enter_async_context(_serving(directories[1], None))
        found = []
        for keys in (1, 64):
            pair = [update_calls(channel, NAMESPACE, keys) for channel in (kept, bare)]
            for calls in pair:
                await closed_loop(calls, 8, min(1.0, seconds))
            rounds_of: tuple[list[Round], list[Round]] = ([], [])
            for number in range(rounds):
                for side in (0, 1) if number % 2 else (1, 0):
                    rounds_of[side].append(await _round(pair[side], in_flight, seconds))
            ratios = [Round(*(ours / theirs for ours, theirs in zip(*both, strict=True))) for both in zip(*rounds_of, strict=True)]
            found.append(Cost(keys, *map(_median, (*rounds_of, ratios))))
        return found


async def _round(calls: Calls, in_flight: int, seconds: float) -> Round:
    begin = time.process_time()
    sample = await closed_loop(calls, in_flight, seconds)
    await asyncio.sleep(PAUSE_SECONDS + 0.3)  # until the history has written them
    return Round(sample.per_second, (time.process_time() - begin) / sample.calls * 1e6)


def _median(rounds: Sequence[Round]) -> Round:
    return Round(*(statistics.median(figures) for figures in zip(*rounds, strict=True)))


def show_pages(times: Sequence[PageTime], console: Console) -> None:
    """Prints a table with a row for each query and a column for each length."""
    table = Table(title="First page of the history, fastest / p50 / p99 in ms, by the number of events")
    table.add_column("of")
    sizes = list(dict.fromkeys(each.events for each in times))
    for events in sizes:
        table.add_column(f"{events:,}", justify="right")
    for question in dict.fromkeys(each.question for each in times):
        cells = {
            each.events: f"{each.fastest_ms:.2f} / {each.p50_ms:.2f} / {each.p99_ms:.2f}" for each in times if each.question == question
        }
        table.add_row(question, *(cells[events] for events in sizes))
    console.print(table)


def show_cost(costs: Sequence[Cost], console: Console) -> None:
    """Prints a table with a row for each number of topics."""
    table = Table(title="Updates on the embedded log, 64 in flight, with a history and without: a second, and processor time")
    for column in ("topics", "with /s", "without /s", "ratio", "with us", "without us", "ratio"):
        table.add_column(column, justify="right")
    for keys, kept, bare, ratio in costs:
        speeds = (f"{kept.per_second:,.0f}", f"{bare.per_second:,.0f}", f"{ratio.per_second:.2f}")
        table.add_row(str(keys), *speeds, f"{kept.cpu_us:.0f}", f"{bare.cpu_us:.0f}", f"{ratio.cpu_us:.2f}")
    console.print(table)


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", action="store_true", help="the first pages only")
    parser.add_argument("--rounds", type=int, default=7, help="rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each load in a round (default: %(default)s)")
    options = parser.parse_args()
    console = Console()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        show_pages(runner.run(pages()), console)
        if not options.pages:
            show_cost(runner.run(cost(options.rounds, options.seconds)), console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
