"""The programs that are measured; each is started for one run unless it already runs."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.broker.admin import Admin
from tests.broker.pulsar_broker import OwnBroker
from tests.ports import free_port

_ROOT = Path(__file__).parents[1]
_READY_SECONDS = 60.0
_PAUSE_SECONDS = 0.01
SERVE = ("-m", "topicpolicies_server", "serve", "--listen", "ADDRESS", "--log-level", "warning")
"""The interpreter's arguments for a sidecar, without its log."""


class Program:
    """A program that listens on a port, in its own process; it keeps its port when it is restarted."""

    def __init__(self, *arguments: str, program: str = sys.executable) -> None:
        """``program`` is Python or another program; ``ADDRESS`` and ``PORT`` in its arguments stand for the address to listen on."""
        self._program = program
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._arguments = [part.replace("ADDRESS", self.address).replace("PORT", str(self._port)) for part in arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the program and returns when it accepts connections.

        Raises:
            RuntimeError: it ended, or did not get that far in time.
        """
        paths = [str(_ROOT), str(_ROOT / "server"), str(_ROOT / "clients/python")]
        # The access log would mix with the output of the measurement.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TOPICPOLICIES_ACCESS_LOG": "off"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed server is compiled, so a start does not include that
        self._process = subprocess.Popen(
            [self._program, *self._arguments], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            # Not `grpc.channel_ready_future`: its thread may still use the channel when that is closed, and fails.
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 0.5):
                return
            time.sleep(_PAUSE_SECONDS)
        self.stop()
        raise RuntimeError(f"{' '.join(self._arguments)} does not listen on {self.address}")

    @property
    def pid(self) -> int:
        """The id of its process; the program was started."""
        assert self._process is not None, "started"
        return self._process.pid

    @property
    def processor_seconds(self) -> float:
        """The processor time that the program's threads have used since their start, with a finer resolution than clock ticks."""
        return sum(int(task.read_text().split()[0]) / 1e9 for task in Path(f"/proc/{self.pid}/task").glob("*/schedstat"))

    @property
    def resident_bytes(self) -> int:
        """The resident memory of the program."""
        fields = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        """Sends SIGTERM, and waits for the end."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=60)
            self._process = None


@contextlib.contextmanager
def running(*arguments: str, program: str = sys.executable) -> Iterator[Program]:
    """Runs a program for as long as the context lasts."""
    started = Program(*arguments, program=program)
    started.start()
    try:
        yield started
    finally:
        started.stop()


@contextlib.contextmanager
def embedded(*options: str) -> Iterator[Program]:
    """Runs a sidecar on a new embedded log. ``options``: further ones of the sidecar."""
    with tempfile.TemporaryDirectory() as directory, running(*SERVE, "--data", f"{directory}/policies.db", *options) as program:
        yield program


class Target(NamedTuple):
    """A sidecar, ready to be called."""

    address: str
    namespace: str
    program: Program | None = None
    """The program, if this run may stop and start it; None: it was started by others."""


@contextlib.contextmanager
def sqlite() -> Iterator[Target]:
    """Runs a sidecar on a new embedded log."""
    with embedded() as program:
        yield Target(program.address, "public/default", program)


@contextlib.contextmanager
def pulsar(service_url: str = "", admin_url: str = "", options: Sequence[str] = ("--allow-missing-topics",)) -> Iterator[Target]:
    """Runs a sidecar on Pulsar, in a new namespace of the tenant ``public``. Without URLs a broker is started too.

    ``options``: further options of the sidecar.
    """
    with contextlib.ExitStack() as stack:
        if not service_url:
            broker = stack.enter_context(OwnBroker())
            service_url, admin_url = broker.service_url, broker.admin_url
        namespace = new_namespace(admin_url)
        program = stack.enter_context(running(*SERVE, "--pulsar", service_url, "--admin-url", admin_url, *options))
        yield Target(program.address, namespace, program)


def new_namespace(admin_url: str) -> str:
    """Creates a namespace of the tenant ``public``, with a cluster that the tenant may use. Returns its name.

    Raises:
        AdminError: the broker refused it.
    """
    namespace = f"public/load-{os.urandom(5).hex()}"
    with Admin(admin_url) as admin:
        clusters = admin.call("GET", "tenants/public")["allowedClusters"]
        admin.call("PUT", f"namespaces/{namespace}", {"replication_clusters": clusters[:1]})
    return namespace
