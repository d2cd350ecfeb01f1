"""Remote Spark on the loopback interface: a cluster of a master and one worker, and a Spark Connect server, in processes of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
_HOME = Path(pyspark.__file__).parent
_HOST = "127.0.0.1"
_SECONDS = 90


def environment() -> dict[str, str]:
    """Returns the environment of Spark's processes and of their clients. Executors have this installation, but not our modules."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        "SPARK_HOME": str(_HOME),
        "SPARK_LOCAL_IP": _HOST,
        "PYSPARK_PYTHON": sys.executable,
    }


@contextlib.contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """Runs a cluster with two cores; yields its master's address."""
    port = free_port()
    master = f"spark://{_HOST}:{port}"
    with contextlib.ExitStack() as stack:
        for name, arguments, ready in (
            ("master.Master", ["--port", str(port)], port),
            ("worker.Worker", ["-c", "2", "-m", "1200m", "-d", str(directory / "work"), master], None),
        ):
            command = [str(_HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}", "--host", _HOST, "--webui-port", str(free_port())]
            stack.enter_context(_running(command + arguments, directory / f"{name}.log", ready))
        yield master


@contextlib.contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """Runs a Spark Connect server on two local cores; yields its address."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": _HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    command = [
        str(_HOME / "bin/spark-submit"),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master",
        "local[2]",
    ]
    command += [word for setting in settings.items() for word in ("--conf", "=".join(setting))]
    with _running([*command, "spark-internal"], directory / "connect.log", port):
        yield f"sc://{_HOST}:{port}"


@contextlib.contextmanager
def _running(command: list[str], log: Path, port: int | None) -> Iterator[None]:
    """Runs a process group, and waits until it listens at the port; kills the group at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment(), cwd=log.parent, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        deadline = time.monotonic() + _SECONDS
        while port is not None and not _listens(port):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-2_000:]
            time.sleep(0.1)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((_HOST, port)) == 0
