"""With a structured log format, every line that Python code of a server logs is structured."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from tests.ports import free_port
from tests.promises.api import RECONNECTING
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import UpdatePolicyRequest
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

pytestmark = pytest.mark.slow
_ROOT = Path(__file__).parents[2]
_PATHS = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT / "server"), str(_ROOT / "clients/python"), str(_ROOT)])}
UPDATE = UpdatePolicyRequest(topic="persistent://public/default/t", policies=TopicPolicies(max_producer_per_topic=5))
NOISE = """
import sys, threading, warnings, runpy
from topicpolicies_server.rpc import server

real = server.Server.start

async def start(self):
    await real(self)
    warnings.warn("Python warns\\nof this")
    thread = threading.Thread(target=lambda: 1 / 0, name="a thread")
    thread.start()
    thread.join()

server.Server.start = start
sys.argv = ["topicpolicies", *sys.argv[1:]]
runpy.run_module("topicpolicies_server", run_name="__main__")
"""
"""A server whose log also gets a Python warning and a thread's failure."""


def serve(*arguments: str, calls: int = 1) -> tuple[int, bytes]:
    """Runs a server, makes ``calls`` updates and stops it; returns its exit code and its standard error."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-c", NOISE, "serve", "--listen", address, *arguments]
    with subprocess.Popen(command, env=_PATHS, stderr=subprocess.PIPE) as process:
        try:
            with grpc.insecure_channel(address, RECONNECTING) as channel:
                for _ in range(calls):
                    TopicPoliciesServiceStub(channel).UpdatePolicy(UPDATE, wait_for_ready=True, timeout=30)
            process.send_signal(signal.SIGTERM)
            _, output = process.communicate(timeout=30)
        finally:
            process.kill()
    return process.returncode, output


def test_every_line_of_a_run_is_structured(tmp_path: Path) -> None:
    code, output = serve("--data", str(tmp_path / "p.db"), "--log-format", "json", calls=3)
    assert code == 0
    lines = [json.loads(line) for line in output.decode("ascii").splitlines()]
    assert all({"ts", "level", "logger", "msg"} <= line.keys() for line in lines)
    by_logger: dict[str, list[str]] = {}
    for line in lines:
        by_logger.setdefault(line["logger"], []).append(line["msg"])
    assert "Python warns\nof this" in by_logger["py.warnings"][0]
    assert "a thread ends: ZeroDivisionError" in by_logger["topicpolicies_server.ops.log"]
    assert by_logger["calls"] == ["call"] * 3
    assert any(message.startswith("Listening on ") for message in by_logger["topicpolicies_server.cli.serve"])
    assert "stopping: finishing what was accepted" in by_logger["topicpolicies_server.process"]


def test_a_server_that_can_not_start_logs_one_structured_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "topicpolicies_server", "serve", "--data", str(tmp_path / "p.db"), "--log-format", "json"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = subprocess.run([*command, "--listen", address], env=_PATHS, capture_output=True, check=False, timeout=30)
    assert ended.returncode == 9
    (line,) = [json.loads(line) for line in ended.stderr.splitlines()]
    assert line["level"] == "critical" and line["msg"].startswith("the server could not start: ") and line["reason"] == "ADDRESS"


def test_in_text_format_the_record_of_calls_is_on_standard_error_in_a_file_or_off(tmp_path: Path) -> None:
    record = tmp_path / "calls.log"
    _, output = serve("--data", str(tmp_path / "a.db"))
    assert output.count(b'INFO    calls: call {"call":"UpdatePolicy","ms":') == 1 and b'"ts":' not in output
    _, output = serve("--data", str(tmp_path / "b.db"), "--access-log-file", str(record))
    assert b"calls: call" not in output and record.read_text().count('"outcome":"APPLIED"') == 1
    _, output = serve("--data", str(tmp_path / "c.db"), "--access-log", "off")
    assert b"calls: call" not in output


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_server_whose_standard_error_is_not_read_serves_calls_and_stops(form: str, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "topicpolicies_server", "serve", "--listen", address, "--data", str(tmp_path / "p.db")]
    with subprocess.Popen([*command, "--log-format", form], env=_PATHS, stderr=subprocess.PIPE) as process:
        try:
            with grpc.insecure_channel(address, RECONNECTING) as channel:
                stub = TopicPoliciesServiceStub(channel)
                stub.UpdatePolicy(UPDATE, wait_for_ready=True, timeout=30)
                for _ in range(600):  # a pipe has room for some hundred lines
                    stub.UpdatePolicy(UPDATE, timeout=30)
                for _ in range(20):
                    process.send_signal(signal.SIGHUP)  # logs a line in the event loop
                    stub.UpdatePolicy(UPDATE, timeout=30)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
