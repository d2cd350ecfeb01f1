"""A server in a process of its own, which is started as an operator starts it, and can be killed at any time; and commands beside it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.cli import programs
from tests.ports import free_port
from tests.suspending import suspend

from .api import RECONNECTING

_ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "topicpolicies_server")
"""The program ``topicpolicies``, as the tests' Python runs it from this checkout."""
_READY_SECONDS = 60
_LOOK_SECONDS = 0.05


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the environment in which ``COMMAND`` runs: without this project's variables, but those that are given."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("TOPICPOLICIES_")}
    paths = os.pathsep.join([str(_ROOT / "server"), str(_ROOT / "clients/python")])
    return {**others, "PYTHONPATH": paths, **(more or {})}


def run(*arguments: str, variables: Mapping[str, str] | None = None) -> programs.Ended:
    """Runs ``topicpolicies`` with these arguments to its end, in a process that is forked once everything is imported.

    Args:
        arguments: the arguments.
        variables: further variables of its environment.
    """
    return programs.run(arguments, environment(variables))


class ServerProcess:
    """``topicpolicies serve`` on one loopback port, which stays the same when it is started again."""

    def __init__(self, options: Sequence[str], output: Path, *, credentials: grpc.ChannelCredentials | None = None) -> None:
        """Does not start the process yet.

        Args:
            options: the options of ``serve``, but for ``--listen``.
            output: the file for what the process prints.
            credentials: with which its health is asked for; None: without TLS.
        """
        self.options = list(options)
        self.output = output
        self._credentials = credentials
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"127.0.0.1:{free_port()}"
        self.lives = 0
        """How often the process was started."""

    @property
    def running(self) -> subprocess.Popen[bytes]:
        """The process while it runs."""
        assert self._process is not None, "it runs"
        return self._process

    @property
    def pid(self) -> int:
        """The id of the process while it runs."""
        return self.running.pid

    @property
    def printed(self) -> str:
        """What it has printed, in all its lives."""
        return self.output.read_text()

    async def start(self) -> None:
        """Starts the process, and waits until it serves.

        Raises:
            AssertionError: it did not serve in time; the message has the end of its output.
        """
        command = [*COMMAND, "serve", "--listen", self.address, *self.options]
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # noqa: ASYNC220
        self.lives += 1
        deadline = asyncio.get_running_loop().time() + _READY_SECONDS
        async with self.channel() as channel:
            check = health_pb2_grpc.HealthStub(channel).Check
            while self._process.poll() is None and asyncio.get_running_loop().time() < deadline:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    answer = await check(health_pb2.HealthCheckRequest(), timeout=1, wait_for_ready=True)
                    if answer.status == health_pb2.HealthCheckResponse.SERVING:
                        return
                    await asyncio.sleep(_LOOK_SECONDS)  # a busy broker may not have answered the server yet
        self.kill()
        raise AssertionError(f"the server does not serve; it printed last:\n{self.printed[-4000:]}")

    def channel(self) -> grpc.aio.Channel:
        """Returns a connection of its own."""
        if self._credentials is None:
            return grpc.aio.insecure_channel(self.address, options=RECONNECTING)
        return grpc.aio.secure_channel(self.address, self._credentials, options=RECONNECTING)

    def kill(self) -> None:
        """Sends SIGKILL, and waits until the process has ended."""
        self.end(signal.SIGKILL)

    def stop(self) -> int:
        """Sends SIGTERM, and returns the exit code."""
        return self.end(signal.SIGTERM)

    def end(self, number: signal.Signals) -> int:
        """Sends a signal that ends the process, and returns the exit code; 0 if the process does not run."""
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(number)
        return process.wait(timeout=60)

    def pause(self) -> None:
        """Suspends the process: the connections stay open, but nothing is answered."""
        suspend(self.pid)

    def resume(self) -> None:
        """Sends SIGCONT."""
        self.running.send_signal(signal.SIGCONT)

    def pause_repairs(self) -> None:
        """Sends SIGUSR1, which pauses its repairs."""
        self.running.send_signal(signal.SIGUSR1)

    def resume_repairs(self) -> None:
        """Sends SIGUSR2, which resumes its repairs."""
        self.running.send_signal(signal.SIGUSR2)

    def hang_up(self) -> None:
        """Sends SIGHUP, after which it reads its files again."""
        self.running.send_signal(signal.SIGHUP)
