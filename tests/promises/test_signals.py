"""A server that is told to stop while clients watch and send: it ends in time, with exit code 0, and says nothing that frightens."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import PolicyChangeRequest, UpdatePoliciesRequest, UpdatePolicyRequest, WatchPoliciesRequest

from .server_process import ServerProcess

TOPIC = "persistent://public/default/orders"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_server_with_open_streams_ends_when_it_is_told_to(tmp_path: Path, number: signal.Signals) -> None:
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
    told = output.read_text()
    assert "Traceback" not in told and "WARNING" not in told and "ERROR" not in told, told
    assert "stopping: finishing what was accepted" in told
