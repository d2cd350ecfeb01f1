"""Signals while a process starts or stops: those that end nothing never end it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow


async def test_sighup_does_not_end_a_server_that_is_starting_or_stopping() -> None:
    program = (
        "import asyncio, os, signal\n"
        "from topicpolicies_server import process\n"
        "from topicpolicies_server.files import Reloader\n"
        "from topicpolicies_server.namespaces.repairs import RepairQueue\n"
        "from types import SimpleNamespace as Some\n"
        "class Service:\n"
        "    async def start(self):\n"
        "        os.kill(os.getpid(), signal.SIGHUP)\n"
        "        self.reloader = Reloader()\n"
        "        self.registry = Some(repairs=RepairQueue(asyncio.get_running_loop(), 1))\n"
        "    async def stop(self):\n"
        "        os.kill(os.getpid(), signal.SIGHUP)\n"
        "        print('stopped')\n"
        "asyncio.run(process.until_stopped(Service, lambda _: os.kill(os.getpid(), signal.SIGTERM)))\n"
    )
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    ended = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env={**os.environ, "PYTHONPATH": paths}, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await asyncio.wait_for(ended.communicate(), 60)
    assert (printed, ended.returncode) == (b"stopped\n", 0)


_STOPS = """
import asyncio, sys
from types import SimpleNamespace as Some
from topicpolicies_server import process
from topicpolicies_server.namespaces.activity import Activity
from topicpolicies_server.namespaces.repairs import RepairQueue
from topicpolicies_server.files import Reloader

class Service:
    async def start(self):
        self.reloader = Reloader()
        self.registry = Some(common=Some(activity=Activity()), repairs=RepairQueue(asyncio.get_running_loop(), 1))

    async def stop(self):
        await asyncio.sleep(0.05)
        print("stopped", flush=True)

if sys.argv[1] == "asyncio":
    sys.modules["uvloop"] = None
process.run(Service, lambda _: print("runs", flush=True))
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_sighup_sigusr1_and_sigusr2_never_end_a_process_that_is_stopping(loop: str, number: signal.Signals) -> None:
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    command = [sys.executable, "-c", _STOPS, loop]
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "runs\n"
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            process.send_signal(number)
            time.sleep(0.0002)  # CPython's signal handler may wait for ever if hundreds come in one turn of the loop
        assert (process.stdout.read(), process.returncode) == ("stopped\n", 0)
