"""A server in a process of its own, started as an operator starts it, so that it can be killed as an operator's machine may kill it."""

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

_ROOT = Path(__file__).parents[2]
_READY_SECONDS = 30
_LOOK_SECONDS = 0.05
ANEW = [("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
"""A connection that is tried again at once, not after a second or two, and is nobody else's: servers here start and end all the time."""


class ServerProcess:
    """``topicpolicies serve`` on one loopback port, which it keeps from one life to the next."""

    def __init__(self, log: Sequence[str], output: Path, program: Sequence[str] = ("-m", "topicpolicies_server")) -> None:
        """Starts nothing yet.

        Args:
            log: the options that say where its change logs are.
            output: a file for what it prints.
            program: what Python is to run.
        """
        self._log = log
        self._output = output
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"127.0.0.1:{free_port()}"
        self.lives = 0
        """How often it was started."""

    @property
    def pid(self) -> int:
        """Of the process, while it runs."""
        assert self._process is not None, "it runs"
        return self._process.pid

    async def start(self) -> None:
        """Starts it, and returns when it serves.

        Raises:
            AssertionError: it did not serve in time; with what it printed last.
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
                    await asyncio.sleep(_LOOK_SECONDS)  # a broker that is busy may not have answered it yet
        self.kill()
        raise AssertionError(f"the server does not serve; it printed last:\n{self._output.read_text()[-4000:]}")

    def kill(self) -> None:
        """SIGKILL."""
        self.end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        return self.end(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP: its connections stay open, and nobody answers."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGCONT)

    def pause_repairs(self) -> None:
        """SIGUSR1: it publishes no repairs any more."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGUSR1)

    def resume_repairs(self) -> None:
        """SIGUSR2: it publishes what is due."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGUSR2)

    def hang_up(self) -> None:
        """SIGHUP: it reads its files anew."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGHUP)

    @contextlib.asynccontextmanager
    async def stub(self) -> AsyncIterator[AsyncStub]:
        """A client's stub on a connection of its own."""
        async with grpc.aio.insecure_channel(self.address, options=ANEW) as channel:
            yield async_stub(channel)

    def end(self, number: signal.Signals) -> int:
        """Any signal that ends it, and its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(number)
        return process.wait(timeout=60)
