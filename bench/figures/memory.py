"""What a document of a large namespace takes in the memory of a server, beside how many bytes it has when it is serialized.

It is the resident set of a server's process that has loaded the namespace, without that of one that has loaded one topic, by the number
of topics.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from bench.harness.targets import Program

from . import filling
from .figure import Figure, Measured, Want
from .scale import Say, Scale
from .starting import calm, first_answer

REMEMBERED = 16
"""Requests of a key that each event tells of."""
KINDS = {"plain": 0, "requests": REMEMBERED}
FIGURES = (
    Figure("memory-plain", "bytes a document in memory, plain", "serialized", "B", Want(at_most=600, of_limit=False)),
    Figure("memory-requests", "bytes a document in memory, 16 requests remembered", "serialized", "B", Want(at_most=1_000, of_limit=False)),
)


def measure(scale: Scale, say: Say) -> dict[str, Measured]:
    """Both kinds, each beside a server that has loaded one topic, round by round."""
    serialized = statistics.mean(filling.policies(number).ByteSize() for number in range(scale.topics))
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as directory:
        logs = {kind: Path(directory) / kind / "policies.db" for kind in (*KINDS, "one topic")}
        for kind, path in logs.items():
            path.parent.mkdir()
            topics = scale.topics if kind in KINDS else 1
            say(f"writing {topics:,} topics, {kind}")
            filling.fill(path, filling.documents(topics, KINDS.get(kind, 0)), topics)
        for number in range(scale.few_rounds):
            say(f"round {number + 1} of {scale.few_rounds}")
            empty = _resident(logs["one topic"], 0)
            for kind, each in found.items():
                each.append((_resident(logs[kind], scale.topics // 2) - empty) / scale.topics)
    return {f"memory-{kind}": Measured(each, [serialized] * len(each)) for kind, each in found.items()}


def _resident(data: Path, number: int) -> int:
    program = Program("-m", "topicpolicies_server", "serve", "--listen", "ADDRESS", "--log-level", "warning", "--data", str(data))
    try:
        first_answer(program, filling.topic(number))
        calm(program)
        return program.resident_bytes
    finally:
        program.stop()
