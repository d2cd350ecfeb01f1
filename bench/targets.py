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

import httpx

from tests.broker.pulsar_broker import OwnBroker
from tests.ports import free_port

_ROOT = Path(__file__).parents[1]
_READY_SECONDS = 60.0
_PAUSE_SECONDS = 0.01


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
        # The access log would mix with the output of the measurement; its cost is measured separately.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TOPICPOLICIES_ACCESS_LOG": "off"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed server is compiled, so a start does not include that
        self._process = subprocess.Popen(
            [self._program, *self._arguments], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + _READY_SECONDS
        host, _, port = self.address.rpartition(":")
        while time.monotonic() < deadline and self._process.poll() is None:
            # Not `grpc.channel_ready_future`: its thread may still use the channel when that is closed, and fails.
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 0.5):
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
        """The processor time that the program has used since its start."""
        ticks = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")

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


class Target(NamedTuple):
    """A sidecar, ready to be called."""

    name: str
    address: str
    namespace: str
    program: Program | None = None
    """The program, if this run may stop and start it; None: it was started by others."""


@contextlib.contextmanager
def sqlite(module: Sequence[str] = ("-m", "topicpolicies_server"), options: Sequence[str] = ()) -> Iterator[Target]:
    """Runs a sidecar on a new embedded log. ``module``: the interpreter's arguments; tests run variants. ``options``: further ones."""
    with tempfile.TemporaryDirectory() as directory:
        data = str(Path(directory) / "policies.db")
        with running(*module, "serve", "--listen", "ADDRESS", "--log-level", "warning", "--data", data, *options) as program:
            yield Target("sqlite", program.address, "public/default", program)


@contextlib.contextmanager
def pulsar(
    service_url: str,
    admin_url: str,
    module: Sequence[str] = ("-m", "topicpolicies_server"),
    options: Sequence[str] = ("--allow-missing-topics",),
) -> Iterator[Target]:
    """Runs a sidecar on Pulsar, in a new namespace of the tenant ``public``. Without URLs a broker is started too.

    ``options``: further options of the sidecar.
    """
    with _broker(service_url, admin_url) as (service, admin):
        namespace = new_namespace(admin)
        arguments = (
            "serve",
            "--listen",
            "ADDRESS",
            "--log-level",
            "warning",
            "--pulsar",
            service,
            "--admin-url",
            admin,
            *options,
        )
        with running(*module, *arguments) as program:
            yield Target("pulsar", program.address, namespace, program)


def new_namespace(admin_url: str) -> str:
    """Creates a namespace of the tenant ``public``, with a cluster that the tenant may use. Returns its name.

    Raises:
        httpx.HTTPStatusError: the broker refused it.
    """
    namespace = f"public/load-{os.urandom(5).hex()}"
    with httpx.Client(base_url=f"{admin_url}/admin/v2/", timeout=30, trust_env=False) as http:
        clusters = http.get("tenants/public").raise_for_status().json()["allowedClusters"]
        http.put(f"namespaces/{namespace}", json={"replication_clusters": clusters[:1]}).raise_for_status()
    return namespace


@contextlib.contextmanager
def _broker(service_url: str, admin_url: str) -> Iterator[tuple[str, str]]:
    if service_url:
        yield service_url, admin_url
        return
    with OwnBroker() as broker:
        yield broker.service_url, broker.admin_url
