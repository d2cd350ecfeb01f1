"""The memory per document of a large namespace, beside the document's serialized size.

The target applies to what ``bench.memory`` measures: the resident set of a process that has loaded the namespace and nothing else. Beside
it stands that of a whole server, which has read the namespace from its log and keeps what a server keeps, minus that of a server that has
read one topic.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import memory as namespaces
from bench.targets import Program
from topicpolicies_server.core.policies.documents import wire

from . import filling
from .figure import Figure, Measured, Want
from .scale import Say, Scale
from .starting import calm, first_answer

KINDS = {"plain": 0, "requests": 16}
"""The kinds of documents, also for ``bench.memory``, and the number of requests that each remembers."""
FIGURES = (
    Figure("memory-plain", "bytes a document in memory, plain", "serialized", "B", Want(at_most=800, of_limit=False)),
    Figure("memory-requests", "bytes a document in memory, 16 requests remembered", "serialized", "B", Want(at_most=1_200, of_limit=False)),
    Figure("memory-server-plain", "bytes a document in a whole server, plain", "serialized", "B"),
    Figure("memory-server-requests", "bytes a document in a whole server, 16 requests remembered", "serialized", "B"),
)


def measure(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures both kinds, in a separate process and in a server, round by round."""
    alone: dict[str, list[float]] = {kind: [] for kind in KINDS}
    served: dict[str, list[float]] = {kind: [] for kind in KINDS}
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
            for kind in KINDS:
                alone[kind].append(_alone(kind, scale.topics))
                served[kind].append((_resident(logs[kind], scale.topics // 2) - empty) / scale.topics)
    serialized = statistics.mean(filling.policies(number).ByteSize() for number in range(scale.topics))
    found = {}
    for kind in KINDS:
        bytes_alone = statistics.mean(len(wire(namespaces.KINDS[kind].document(number))) for number in range(1_000))
        found[f"memory-{kind}"] = Measured(alone[kind], [bytes_alone] * len(alone[kind]))
        found[f"memory-server-{kind}"] = Measured(served[kind], [serialized] * len(served[kind]))
    return found


def _alone(kind: str, topics: int) -> float:
    """Returns the bytes per document of a process that has loaded this many, and nothing else."""
    command = [sys.executable, "-m", "bench.memory", "--topics", str(topics), "--kind", kind, "--alone", "process"]
    return float(subprocess.run(command, check=True, capture_output=True).stdout)


def _resident(data: Path, number: int) -> int:
    program = Program("-m", "topicpolicies_server", "serve", "--listen", "ADDRESS", "--log-level", "warning", "--data", str(data))
    try:
        first_answer(program, filling.topic(number))
        calm(program)
        return program.resident_bytes
    finally:
        program.stop()
