"""A server in a process of its own, which is started as an operator starts it, and can be killed at any time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.ports import free_port
from tests.stubs import AsyncStub, async_stub
from tests.suspending import suspend

_ROOT = Path(__file__).parents[2]
_READY_SECONDS = 30
_LOOK_SECONDS = 0.05
ANEW = [("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
"""Options of a connection that is retried at once, not after a second, and is not shared: servers here start and end all the time."""


class ServerProcess:
    """``topicpolicies serve`` on one loopback port, which stays the same when it is started again."""

    def __init__(self, log: Sequence[str], output: Path, program: Sequence[str] = ("-m", "topicpolicies_server")) -> None:
        """Does not start the process yet.

        Args:
            log: the options for its change logs, and further ones.
            output: the file for what the process prints.
            program: the arguments that make Python run the program.
        """
        self._log = log
        self._output = output
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"127.0.0.1:{free_port()}"
        self.lives = 0
        """How often the process was started."""

    @property
    def pid(self) -> int:
        """The id of the process while it runs."""
        assert self._process is not None, "it runs"
        return self._process.pid

    async def start(self) -> None:
        """Starts the process, and waits until it serves.

        Raises:
            AssertionError: it did not serve in time; the message has the end of its output.
        """
        command = [sys.executable, *self._program, "serve", "--listen", self.address, *self._log]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT / "server"), str(_ROOT / "clients/python")])}
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # noqa: ASYNC220
        self.lives += 1
        deadline = asyncio.get_running_loop().time() + _READY_SECONDS
        async with grpc.aio.insecure_channel(self.address, options=ANEW) as channel:
            check = health_pb2_grpc.HealthStub(channel).Check
            while self._process.poll() is None and asyncio.get_running_loop().time() < deadline:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    answer = await check(health_pb2.HealthCheckRequest(), timeout=1, wait_for_ready=True)
                    if answer.status == health_pb2.HealthCheckResponse.SERVING:
                        return
                    await asyncio.sleep(_LOOK_SECONDS)  # a busy broker may not have answered the server yet
        self.kill()
        raise AssertionError(f"the server does not serve; it printed last:\n{self._output.read_text()[-4000:]}")

    def kill(self) -> None:
        """Sends SIGKILL, and waits until the process has ended."""
        self.end(signal.SIGKILL)

    def stop(self) -> int:
        """Sends SIGTERM, and returns the exit code."""
        return self.end(signal.SIGTERM)

    def pause(self) -> None:
        """Suspends the process: the connections stay open, but nothing is answered."""
        assert self._process is not None, "it runs"
        suspend(self._process.pid)

    def resume(self) -> None:
        """Sends SIGCONT."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGCONT)

    def pause_repairs(self) -> None:
        """Sends SIGUSR1, which pauses its repairs."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGUSR1)

    def resume_repairs(self) -> None:
        """Sends SIGUSR2, which resumes its repairs."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGUSR2)

    def hang_up(self) -> None:
        """Sends SIGHUP, after which it reads its files again."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGHUP)

    @contextlib.asynccontextmanager
    async def stub(self) -> AsyncIterator[AsyncStub]:
        """Yields a stub on a connection of its own."""
        async with grpc.aio.insecure_channel(self.address, options=ANEW) as channel:
            yield async_stub(channel)

    def end(self, number: signal.Signals) -> int:
        """Sends a signal that ends the process, and returns the exit code; 0 if the process does not run."""
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(number)
        return process.wait(timeout=60)
