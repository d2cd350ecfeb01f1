"""From the start of a server's process to its first answer of a namespace with many topics.

Beside the embedded log: reading its rows and nothing else. Beside Pulsar: a process that takes all messages of the log and does nothing
else, from its start to its end. The files are in the page cache; the processes are new. The checkpoints that the server keeps are there, as
at any restart, unless the figure says that nothing was kept.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import grpc

from bench.load import fill
from bench.targets import SERVE, Program, new_namespace, running
from tests.broker.admin import Admin
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

from .figure import Figure, Scale
from .publishing import CHANGE_EVENTS

_NAMESPACE = "public/default"
_ANSWER_SECONDS = 600.0
_CONNECTING = [(f"grpc.{which}_reconnect_backoff_ms", 20) for which in ("initial", "min", "max")]
"""By default a channel whose first attempt finds no listener, as here, waits for a second, and longer after each further attempt."""


def first_answer(program: Program, topic: str) -> float:
    """Starts a server, reads a topic's document, and stops the server, which keeps a checkpoint then. Returns the seconds until the answer.

    Raises:
        RuntimeError: there is no such document.
        grpc.RpcError: it did not answer in time.
    """
    request = service_pb2.GetPolicyRequest(topic=topic)
    begin = time.perf_counter()
    try:
        program.start()
        with grpc.insecure_channel(program.address, _CONNECTING) as channel:
            answer = TopicPoliciesServiceStub(channel).GetPolicy(request, wait_for_ready=True, timeout=_ANSWER_SECONDS)
        took = time.perf_counter() - begin
        if not answer.HasField("policies"):
            raise RuntimeError(f"{topic} has no document")
    finally:
        program.stop()
    return took


def measure(scale: Scale) -> list[Figure]:
    """Measures the embedded log."""
    with tempfile.TemporaryDirectory() as name:
        data, kept = Path(name) / "policies.db", Path(name) / "checkpoints"
        log = ("--data", str(data), "--no-history", "--checkpoints", str(kept))
        with running(*SERVE, *log) as program:
            asyncio.run(fill(program.address, _NAMESPACE, scale.topics))

        def rows() -> int:
            connection = sqlite3.connect(data)
            try:
                return sum(1 for _ in connection.execute("SELECT * FROM events ORDER BY place"))
            finally:
                connection.close()

        limits, starts, restarts, note = _rounds(Program(*SERVE, *log), kept, _NAMESPACE, rows, scale)
    what, beside = f"first answer of {scale.topics:,} topics, embedded log", "reading the same rows"
    return [
        Figure(what, beside, "s", restarts, limits, at_most=1.0, of_limit=False, note=note),
        Figure(f"{what}, nothing kept beside it", beside, "s", starts, limits, of_limit=False),
    ]


def measure_pulsar(scale: Scale) -> list[Figure]:
    """Measures a sidecar on a broker."""
    namespace = new_namespace(scale.admin_url)
    with Admin(scale.admin_url) as admin:
        admin.compact_only_on_request(namespace)
    log = ("--pulsar", scale.service_url, "--admin-url", scale.admin_url, "--allow-missing-topics")
    with running(*SERVE, *log) as program:
        asyncio.run(fill(program.address, namespace, scale.topics))
    drain = [sys.executable, "-m", "bench.figures.publishing", scale.service_url, f"persistent://{namespace}/{CHANGE_EVENTS}"]
    with tempfile.TemporaryDirectory() as name:
        kept = Path(name) / "checkpoints"
        program = Program(*SERVE, *log, "--checkpoints", str(kept))

        def drained() -> int:
            return int(subprocess.run(drain, stdout=subprocess.PIPE, text=True, check=True).stdout)

        limits, starts, restarts, note = _rounds(program, kept, namespace, drained, scale)
    what = f"first answer of {scale.topics:,} topics, Pulsar"
    return [
        Figure(what, "a raw drain", "s", restarts, limits, at_most=2.0, of_limit=False, note=note),
        Figure(f"{what}, nothing kept", "a raw drain", "s", starts, limits, at_most=1.2),
    ]


def _rounds(
    program: Program, kept: Path, namespace: str, limit: Callable[[], int], scale: Scale
) -> tuple[list[float], list[float], list[float], str]:
    """Measures the limit, a start with nothing kept, and a start with the checkpoint of the former, round by round.

    Returns the seconds of each, and the size of the checkpoints in words.
    """
    topic = f"persistent://{namespace}/bench-{scale.topics // 2}"
    limits, starts, restarts, size = list[float](), list[float](), list[float](), 0
    for _ in range(scale.rounds):
        begin = time.perf_counter()
        if (count := limit()) < scale.topics:
            raise RuntimeError(f"the log has {count} events and not {scale.topics}")
        limits.append(time.perf_counter() - begin)
        shutil.rmtree(kept, ignore_errors=True)
        starts.append(first_answer(program, topic))
        if not (size := sum(file.stat().st_size for file in kept.iterdir())):
            raise RuntimeError("the server kept no checkpoint when it stopped")
        restarts.append(first_answer(program, topic))
    return limits, starts, restarts, f"the checkpoints have {size / 1e6:.1f} MB"
