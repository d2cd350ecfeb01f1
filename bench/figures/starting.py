"""From the start of a server's process to its first answer of a namespace with many topics.

Beside the embedded log: its rows, read and nothing else. Beside Pulsar: a process that takes all messages of the log and does nothing else,
from its start to its end. The files are in the page cache; the processes are new. What the server keeps in its folder beside the log is
there, as at any restart; where it says so, it is not.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc

from bench.harness.targets import Program
from bench.loading import write
from tests.broker.admin import CHANGE_EVENTS, Admin
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import SCOPE_LOCAL
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

from . import filling
from .figure import Figure, Measured, Want
from .scale import LARGE, Say, Scale

_ANSWER_SECONDS = 600.0
_UNKNOWN = "0"
_BESIDE = "reading the same rows"
_DRAIN = "a raw drain"


def embedded_figures(topics: int, most_seconds: float) -> tuple[Figure, ...]:
    """Of one size of namespaces."""
    what = f"first answer of {topics:,} topics, embedded log"
    return (
        Figure(f"start-{topics}", what, _BESIDE, "s", Want(at_most=most_seconds, of_limit=False)),
        Figure(f"start-{topics}-log-only", f"{what}, nothing kept beside it", _BESIDE, "s"),
    )


def pulsar_figures(topics: int, most_seconds: float | None) -> tuple[Figure, ...]:
    """The same beside Pulsar; without a bound in seconds a kept snapshot is only told of."""
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
    """Starts a server and asks it for a topic's document; seconds from the start of the process to the answer.

    Raises:
        RuntimeError: there is no such document.
        grpc.RpcError: it did not answer in time.
    """
    request = service_pb2.GetPolicyRequest(topic=topic, scopes=[SCOPE_LOCAL])
    begin = time.perf_counter()
    program.start()
    with grpc.insecure_channel(program.address) as channel:
        answer: service_pb2.GetPolicyResponse = TopicPoliciesServiceStub(channel).GetPolicy(
            request, wait_for_ready=True, timeout=_ANSWER_SECONDS
        )
    took = time.perf_counter() - begin
    if answer.documents[0].version == _UNKNOWN:
        raise RuntimeError(f"{topic} has no document")
    return took


def measure(scale: Scale, say: Say) -> dict[str, Measured]:
    """The embedded log with as many topics as are usual."""
    return _embedded(scale.topics, scale, say, FIGURES)


def measure_large(scale: Scale, say: Say) -> dict[str, Measured]:
    """The embedded log with many topics."""
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

        def emptied() -> None:
            for path in Path(directory).iterdir():
                if not path.name.startswith(data.name):
                    path.unlink()

        with tempfile.TemporaryDirectory() as nowhere:
            empty = Path(nowhere) / "policies.db"
            filling.fill(empty, filling.documents(1), 1)
            bare = _started(_serve("--data", str(empty)), filling.topic(0))
        program = _serve("--data", str(data))
        return _rounds(program, filling.topic(topics // 2), limit, emptied, scale, say, figures, f"of a log with one topic: {bare:.2f} s")


def measure_pulsar(scale: Scale, say: Say) -> dict[str, Measured]:
    """Pulsar with as many topics as are usual."""
    return _pulsar(scale.topics, scale, say, PULSAR_FIGURES)


def measure_large_pulsar(scale: Scale, say: Say) -> dict[str, Measured]:
    """Pulsar with many topics."""
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

        def emptied() -> None:
            for path in Path(directory).rglob("*"):
                if path.is_file():
                    path.unlink()

        history = ("--history", str(Path(directory) / "history.db"))
        program = _serve("--pulsar", scale.service_url, "--admin-url", scale.admin_url, *history)
        return _rounds(program, f"persistent://{namespace}/topic-{topics // 2}", limit, emptied, scale, say, figures, "")


def _serve(*log: str) -> Program:
    return Program("-m", "topicpolicies_server", "serve", "--listen", "ADDRESS", "--log-level", "warning", *log)


def _started(program: Program, topic: str) -> float:
    try:
        return first_answer(program, topic)
    finally:
        program.stop()


def _rounds(
    program: Program,
    topic: str,
    limit: Callable[[], float],
    emptied: Callable[[], None],
    scale: Scale,
    say: Say,
    figures: Sequence[Figure],
    note: str,
) -> dict[str, Measured]:
    """The limit, a start with nothing kept, and one with what that start kept, round by round."""
    limits, bare, kept = [], [], []
    for number in range(scale.few_rounds):
        say(f"round {number + 1} of {scale.few_rounds}")
        limits.append(limit())
        emptied()
        bare.append(_started(program, topic))
        kept.append(_started(program, topic))
    both = {name: Measured(times, limits, note) for name, times in (("kept", kept), ("bare", bare))}
    return {figures[0].name: both["kept"], figures[1].name: both["bare"]}
