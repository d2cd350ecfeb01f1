"""A server that gets signals while clients watch and send: it stops in time, with exit code 0, and logs no warnings."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.access.signing import SECRET, token
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import (
    GetPolicyRequest,
    PolicyChangeRequest,
    UpdatePoliciesRequest,
    UpdatePolicyRequest,
    WatchPoliciesRequest,
)

from .server_process import ServerProcess

pytestmark = pytest.mark.slow
TOPIC = "persistent://public/default/orders"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_server_with_open_streams_stops_on_sigterm_and_sigint_without_warnings(tmp_path: Path, number: signal.Signals) -> None:
    output = tmp_path / "server.log"
    server = ServerProcess(["--data", str(tmp_path / "policies.db")], output)
    await server.start()
    try:
        async with server.stub() as stub:
            update = UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1))
            await stub.UpdatePolicy(update)
            watches: list[Any] = [stub.WatchPolicies(WatchPoliciesRequest(namespaces=["public/default"])) for _ in range(20)]
            for watch in watches:
                await watch.read()
            stream: Any = stub.UpdatePolicies()
            await stream.write(UpdatePoliciesRequest(changes=[PolicyChangeRequest(update=update)]))
            await stream.read()
            assert await asyncio.to_thread(server.end, number) == 0
            for call in (*watches, stream):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    while await call.read() is not grpc.aio.EOF:
                        pass
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
                assert "The server is stopping" in (caught.value.details() or "")
    finally:
        server.kill()
    printed = output.read_text()
    assert "Traceback" not in printed and "WARNING" not in printed and "ERROR" not in printed, printed
    assert "stopping: finishing what was accepted" in printed


async def test_sighup_makes_a_server_read_its_files_again_and_does_not_end_it(tmp_path: Path) -> None:
    output = tmp_path / "server.log"
    server = ServerProcess(["--data", str(tmp_path / "policies.db")], output)
    await server.start()
    try:
        async with server.stub() as stub:
            watch: Any = stub.WatchPolicies(WatchPoliciesRequest(namespaces=["public/default"]))
            await watch.read()
            for count in (1, 2):
                server.hang_up()
                async with asyncio.timeout(20):
                    while output.read_text().count("files are read again") < count:  # noqa: ASYNC110 (another process)
                        await asyncio.sleep(0.01)
            await stub.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1)))
            assert (await watch.read()) is not grpc.aio.EOF
            assert await asyncio.to_thread(server.end, signal.SIGTERM) == 0
    finally:
        server.kill()
    assert "stopping: finishing what was accepted" in output.read_text()


_LOOKS_AT_NOTHING = """
from topicpolicies_server import entry, reloading
reloading.Reloader.__init__.__defaults__ = (3_600.0,)
entry.main()
"""


async def test_permissions_change_as_soon_as_the_roles_were_read_again_after_sighup(tmp_path: Path) -> None:
    output, roles, key = tmp_path / "server.log", tmp_path / "roles.toml", tmp_path / "secret.key"
    key.write_bytes(SECRET)

    def grant(role: str) -> None:
        """Writes which role may read and change. The server does not look at the file by itself."""
        roles.write_text(f'[[grants]]\nroles = ["{role}"]\nnamespaces = ["public/*"]\npermissions = ["change"]\n')

    asking = ["--authentication-providers", "token", "--token-secret-key", str(key), "--authorization", str(roles)]
    server = ServerProcess(["--data", str(tmp_path / "policies.db"), *asking], output, ("-c", _LOOKS_AT_NOTHING))
    grant("reader")
    await server.start()
    metadata = (("authorization", f"Bearer {token(SECRET, sub='reader')}"),)
    read_anew = f"authorization file: read again from {roles}, and in force"
    try:
        async with server.stub() as stub:
            update = UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1))
            await stub.UpdatePolicy(update, metadata=metadata)
            grant("nobody")
            await stub.UpdatePolicy(update, metadata=metadata)  # the file has changed, but there was no SIGHUP yet
            for who, may in (("nobody", False), ("reader", True)):
                grant(who)
                lines = output.read_text().count(read_anew)
                server.hang_up()
                async with asyncio.timeout(20):
                    while output.read_text().count(read_anew) == lines:  # noqa: ASYNC110 (another process)
                        await asyncio.sleep(0.01)
                if may:
                    await stub.UpdatePolicy(update, metadata=metadata)
                    continue
                for call in (
                    stub.UpdatePolicy(update, metadata=metadata),
                    stub.GetPolicy(GetPolicyRequest(topic=TOPIC), metadata=metadata),
                ):
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await call
                    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert await asyncio.to_thread(server.end, signal.SIGTERM) == 0
    finally:
        server.kill()


async def test_sighup_does_not_end_a_server_that_is_starting_or_stopping() -> None:
    program = (
        "import asyncio, os, signal\n"
        "from topicpolicies_server import process\n"
        "from topicpolicies_server.reloading import Reloader\n"
        "from topicpolicies_server.namespaces.gate import Gate\n"
        "from types import SimpleNamespace as Some\n"
        "class Service:\n"
        "    async def start(self):\n"
        "        os.kill(os.getpid(), signal.SIGHUP)\n"
        "        self.reloader = Reloader()\n"
        "        self.registry = Some(activity=None, gate=Gate(asyncio.get_running_loop(), 1))\n"
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
from topicpolicies_server.namespaces.gate import Gate
from topicpolicies_server.reloading import Reloader

class Service:
    async def start(self):
        self.reloader = Reloader()
        self.registry = Some(activity=Activity(), gate=Gate(asyncio.get_running_loop(), 1))

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
            time.sleep(0.0002)  # CPython's signal handler may wait for ever if hundreds come in one turn of the loop (docs/bugs.md)
        assert (process.stdout.read(), process.returncode) == ("stopped\n", 0)
