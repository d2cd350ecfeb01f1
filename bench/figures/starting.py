"""From the start of a server's process to its first answer of a namespace with many topics.

Beside the embedded log: reading its rows and nothing else. Beside Pulsar: a process that takes all messages of the log and does nothing
else, from its start to its end. The files are in the page cache; the processes are new. The files that the server keeps in its folder
beside the log are there, as at any restart, unless the figure says that nothing was kept.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import grpc

from bench.loading import write
from bench.targets import Program
from tests.broker.admin import CHANGE_EVENTS, Admin
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub
from topicpolicies_server.config.sources import options

from . import filling
from .figure import Figure, Measured, Want
from .scale import LARGE, Say, Scale

_ANSWER_SECONDS = 600.0
_UNKNOWN = "0"
_CONNECTING = [(f"grpc.{which}_reconnect_backoff_ms", 20) for which in ("initial", "min", "max")]
"""By default a channel whose first attempt finds no listener, as here, waits for a second, and longer after each further attempt."""
_PAUSE_SECONDS = 0.25
_STILL = 3
"""For this many pauses a calm server does next to nothing."""
_CALM = 0.2
"""Next to nothing: less than this share of a processor."""
_PATIENCE_SECONDS = 300.0
_SQLITE = ("-wal", "-shm", "-mark", ".lock")
_KEPT = ("checkpoints",)
"""The options for directories with which a server beside a Pulsar log may start, as far as it has them; no history, as by default."""
_BESIDE = "reading the same rows"
_DRAIN = "a raw drain"


def embedded_figures(topics: int, most_seconds: float) -> tuple[Figure, ...]:
    """Returns the figures of one size of namespaces."""
    what = f"first answer of {topics:,} topics, embedded log"
    return (
        Figure(f"start-{topics}", what, _BESIDE, "s", Want(at_most=most_seconds, of_limit=False)),
        Figure(f"start-{topics}-log-only", f"{what}, nothing kept beside it", _BESIDE, "s"),
    )


def pulsar_figures(topics: int, most_seconds: float | None) -> tuple[Figure, ...]:
    """Returns the same figures beside Pulsar; without a bound in seconds, a start with kept files has no target."""
    what = f"first answer of {topics:,} topics, Pulsar"
    want = Want(at_most=most_seconds, of_limit=False)
    return (
        Figure(f"start-pulsar-{topics}-kept", f"{what}, with what was kept", _DRAIN, "s", want),
        Figure(f"start-pulsar-{topics}", what, _DRAIN, "s", Want(at_most=1.2)),
    )


FIGURES = embedded_figures(100_000, 1.0)
LARGE_FIGURES = embedded_figures(LARGE, 5.0)
PULSAR_FIGURES = pulsar_figures(100_000, 2.0)
LARGE_PULSAR_FIGURES = pulsar_figures(LARGE, None)


def first_answer(program: Program, topic: str) -> float:
    """Starts a server and reads a topic's document. Returns the seconds from the start of the process to the answer.

    Raises:
        RuntimeError: there is no such document.
        grpc.RpcError: it did not answer in time.
    """
    request = service_pb2.GetPolicyRequest(topic=topic)
    begin = time.perf_counter()
    program.start()
    with grpc.insecure_channel(program.address, _CONNECTING) as channel:
        answer = TopicPoliciesServiceStub(channel).GetPolicy(request, wait_for_ready=True, timeout=_ANSWER_SECONDS)
    took = time.perf_counter() - begin
    if answer.version == _UNKNOWN:
        raise RuntimeError(f"{topic} has no document")
    return took


def calm(program: Program) -> None:
    """Returns when a server has done its work after the first answers, or when the time for that is over."""
    until, still = time.monotonic() + _PATIENCE_SECONDS, 0
    while still < _STILL and time.monotonic() < until:
        used = program.processor_seconds
        time.sleep(_PAUSE_SECONDS)
        still = still + 1 if program.processor_seconds - used < _CALM * _PAUSE_SECONDS else 0


def measure(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures the embedded log with the usual number of topics."""
    return _embedded(scale.topics, scale, say, FIGURES)


def measure_large(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures the embedded log with many topics."""
    return _embedded(scale.large_topics or scale.topics, scale, say, LARGE_FIGURES)


def _embedded(topics: int, scale: Scale, say: Say, figures: Sequence[Figure]) -> dict[str, Measured]:
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "policies.db"
        say(f"writing {topics:,} topics")
        filling.fill(data, filling.documents(topics), topics)

        def limit() -> float:
            rows, seconds = filling.rows_read(data)
            if rows < topics:
                raise RuntimeError(f"the log has {rows} rows and not {topics}")
            return seconds

        with tempfile.TemporaryDirectory() as nowhere:
            empty = Path(nowhere) / "policies.db"
            filling.fill(empty, filling.documents(1), 1)
            bare = _Start(_serve("--data", str(empty)), filling.topic(0), Path(nowhere), frozenset()).seconds()
        start = _Start(
            _serve("--data", str(data)),
            filling.topic(topics // 2),
            Path(directory),
            frozenset(f"{data.name}{end}" for end in ("", *_SQLITE)),
        )
        return _rounds(start, limit, scale, say, figures, f"of a log with one topic: {bare:.2f} s")


def measure_pulsar(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures Pulsar with the usual number of topics."""
    return _pulsar(scale.topics, scale, say, PULSAR_FIGURES)


def measure_large_pulsar(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures Pulsar with many topics."""
    return _pulsar(scale.large_topics or scale.topics, scale, say, LARGE_PULSAR_FIGURES)


def _pulsar(topics: int, scale: Scale, say: Say, figures: Sequence[Figure]) -> dict[str, Measured]:
    with Admin(scale.admin_url) as admin:
        namespace = admin.create_namespace("bench")
        admin.compact_only_on_request(namespace)
        say(f"writing {topics:,} topics")
        write(scale.service_url, scale.admin_url, namespace, topics, None, None)

    def limit() -> float:
        begin = time.perf_counter()
        log = f"persistent://{namespace}/{CHANGE_EVENTS}"
        ran = subprocess.run(
            [sys.executable, "-m", "bench.figures.draining", scale.service_url, log], capture_output=True, text=True, check=True
        )
        if int(ran.stdout) < topics:
            raise RuntimeError(f"{ran.stdout.strip()} messages were drained and not {topics}")
        return time.perf_counter() - begin

    with tempfile.TemporaryDirectory() as directory:
        files = {name: str(Path(directory) / name) for name in _KEPT if name in options()}
        kept = [part for name, file in files.items() for part in (f"--{name}", file)]
        program = _serve("--pulsar", scale.service_url, "--admin-url", scale.admin_url, *kept)
        start = _Start(program, f"persistent://{namespace}/topic-{topics // 2}", Path(directory), frozenset())
        return _rounds(start, limit, scale, say, figures)


def _serve(*log: str) -> Program:
    return Program("-m", "topicpolicies_server", "serve", "--listen", "ADDRESS", "--log-level", "warning", *log)


class _Start(NamedTuple):
    """A server that is started again and again."""

    program: Program
    topic: str
    folder: Path
    log: frozenset[str]
    """The names of the log's own files in the folder."""

    def seconds(self) -> float:
        """Starts the server, waits for its first answer, and stops it when it is calm. Returns the seconds until the answer."""
        try:
            took = first_answer(self.program, self.topic)
            calm(self.program)
            return took
        finally:
            self.program.stop()

    def beside(self) -> list[Path]:
        """Returns the files that the server keeps beside the log."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file() and path.name not in self.log)

    def forget(self) -> None:
        """Removes the files that the server keeps beside the log."""
        for path in self.beside():
            path.unlink()


def _rounds(
    start: _Start, limit: Callable[[], float], scale: Scale, say: Say, figures: Sequence[Figure], note: str = ""
) -> dict[str, Measured]:
    """Measures the limit, a start with nothing kept, and a start with the files that the former kept, round by round."""
    limits, bare, kept, there = [], [], [], "nothing"
    for number in range(scale.few_rounds):
        say(f"round {number + 1} of {scale.few_rounds}")
        limits.append(limit())
        start.forget()
        bare.append(start.seconds())
        there = ", ".join(f"{path.name} ({path.stat().st_size / 1e6:.1f} MB)" for path in start.beside()) or "nothing"
        kept.append(start.seconds())
    told = f"beside the log was kept: {there}"
    return {
        figures[0].name: Measured(kept, limits, "; ".join(filter(None, (note, told)))),
        figures[1].name: Measured(bare, limits, note),
    }
