"""Which log imports what: a sidecar without a broker does not need Pulsar's client library."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("imported", "absent"),
    [
        ("topicpolicies_server.logs.leadership", ("_pulsar", "topicpolicies_server.logs.pulsar")),
        ("tests.memory_log.led", ("_pulsar", "topicpolicies_server.logs.pulsar")),
    ],
)
def test_a_log_does_not_import_other_logs_or_their_libraries(imported: str, absent: tuple[str, ...]) -> None:
    program = f"import sys, {imported}; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


IN_USE = """
import asyncio, sys
from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, an_update

async def use():
    from topicpolicies_server.logs.sqlite import SqliteLog
    recorder, logs = Recorder(), SqliteLog()
    log = await logs.open("acme/orders", recorder)
    recorder.append(log, an_update(a_key("acme/orders")))
    await recorder.until_settled(1)
    assert log.leadership.leads and log.follows("", recorder.entries[0].position)
    await logs.close()

asyncio.run(use())
print([name for name in sys.modules if name.startswith(("_pulsar", "pulsar", "topicpolicies_server.logs.pulsar", "httpx"))])
"""


def test_an_embedded_log_in_use_does_not_import_the_pulsar_log_or_its_libraries() -> None:
    done = subprocess.run([sys.executable, "-c", IN_USE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
