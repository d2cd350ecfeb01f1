"""Which log imports what: a sidecar without a broker needs no client library of Pulsar."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("imported", "absent"),
    [
        ("topicpolicies_server.logs.memory", ("_pulsar", "topicpolicies_server.logs.pulsar", "httpx")),
        ("topicpolicies_server.logs.sqlite", ("_pulsar", "topicpolicies_server.logs.pulsar", "httpx")),
        ("topicpolicies_server.logs.leadership", ("_pulsar", "topicpolicies_server.logs.pulsar", "topicpolicies_server.logs.memory")),
        ("tests.memory_log.led", ("_pulsar", "topicpolicies_server.logs.pulsar")),
    ],
)
def test_a_log_imports_nothing_of_another(imported: str, absent: tuple[str, ...]) -> None:
    program = f"import sys, {imported}; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
