"""An outage of a real broker: what the server logs, reports and answers, and that it recovers without a restart."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import grpc
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.broker.fixtures import MakeBroker
from tests.ops.scraping import Scrape
from tests.plain_http import NO_TLS
from tests.ports import free_port
from tests.promises.server_process import ServerProcess
from tests.rpc.conftest import refused
from tests.stubs import AsyncStub, async_stub
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import GetPolicyRequest, UpdatePolicyRequest
from topicpolicies_server.rpc.reads import UNCONFIRMED_KEY

TOPIC = "persistent://public/default/orders"
OPEN, CONNECTED = "topicpolicies_logs_open", "topicpolicies_logs_connected"
READY, OUT, CALLS = "topicpolicies_ready", "topicpolicies_log_unreachable_seconds", "topicpolicies_calls_total"
UNREACHABLE = {"code": "UNAVAILABLE", "reason": "LOG_UNAVAILABLE"}
GUARD_SECONDS = 90.0
"""The most seconds that a step may take, with room for a busy machine."""


def update(value: int) -> UpdatePolicyRequest:
    return UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=value))


async def applied(stub: AsyncStub, value: int) -> None:
    """Changes the document, and retries until that succeeds: the log may not be open yet."""
    async with asyncio.timeout(GUARD_SECONDS):
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await stub.UpdatePolicy(update(value), timeout=10)
                return
            await asyncio.sleep(0.5)


async def value_of(stub: AsyncStub) -> tuple[int, bool]:
    """Returns the value that is read, and whether the answer is marked as unconfirmed."""
    call = stub.GetPolicy(GetPolicyRequest(topic=TOPIC), timeout=10)
    document = await call
    return document.policies.max_producer_per_topic, UNCONFIRMED_KEY in dict(await call.trailing_metadata())


async def until(watch: Any, status: int) -> float:
    """Waits for a status of a health watch, and returns how many seconds that took."""
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(GUARD_SECONDS):
        while (await watch.read()).status != status:
            pass
    return asyncio.get_running_loop().time() - began


class Probes:
    """A client of the server's HTTP endpoint."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    async def ask(self, path: str) -> tuple[int, str]:
        """Returns the status and the text of an answer."""
        async with httpx.AsyncClient(trust_env=False, timeout=20, verify=NO_TLS) as client:
            answer = await client.get(self._url + path)
        return answer.status_code, answer.text

    async def scrape(self) -> Scrape:
        """Returns the present metrics."""
        status, text = await self.ask("/metrics")
        assert status == 200
        return Scrape(text)

    async def all_connected(self) -> Scrape:
        """Waits until every open log is connected, and returns the metrics of then."""
        async with asyncio.timeout(GUARD_SECONDS):
            while (shown := await self.scrape()).value(OPEN) != shown.value(CONNECTED) or not shown.value(OPEN):  # noqa: ASYNC110
                await asyncio.sleep(0.2)  # another process can only be polled
        return shown


async def test_an_outage_shows_in_logs_probes_metrics_and_reasons_and_ends_without_a_restart(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker, port, output = make_broker(heap_mb=600), free_port(), tmp_path / "server.log"
    await asyncio.to_thread(broker.start)
    log = ["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--allow-missing-topics"]
    server = ServerProcess([*log, "--log-format", "json", "--metrics-listen", f"127.0.0.1:{port}"], output)
    await server.start()
    probes = Probes(port)
    try:
        async with grpc.aio.insecure_channel(server.address) as channel:
            stub = async_stub(channel)
            health = health_pb2_grpc.HealthStub(channel)
            watch: Any = health.Watch(health_pb2.HealthCheckRequest())
            await until(watch, health_pb2.HealthCheckResponse.SERVING)
            await applied(stub, 1)
            assert await value_of(stub) == (1, False)
            assert await probes.ask("/readyz") == (200, "ok")
            before = await probes.all_connected()
            assert (before.value(READY), before.value(OUT), before.value(CALLS, **UNREACHABLE)) == (1, 0, 0)

            await asyncio.to_thread(broker.kill)
            seconds = await until(watch, health_pb2.HealthCheckResponse.NOT_SERVING)
            print(f"\nnot ready {seconds:.1f} s after the broker was killed")
            assert (await probes.ask("/livez"))[0] == 200
            status, text = await probes.ask("/readyz")
            assert status == 503 and "[-]log failed: The change log has been out of reach for" in text and "LOG_UNAVAILABLE" in text
            for call in (
                stub.UpdatePolicy(update(2), timeout=30),
                stub.GetPolicy(GetPolicyRequest(topic="persistent://public/other/one"), timeout=30),
            ):
                began = asyncio.get_running_loop().time()
                refusal = await refused(call)
                assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.UNAVAILABLE, "LOG_UNAVAILABLE")
                assert asyncio.get_running_loop().time() - began < 10.0, "the refusal came late"
            assert await value_of(stub) == (1, True)
            gone = await probes.scrape()
            assert gone.value(READY) == 0
            assert gone.value(OUT) > 0 and gone.value(CONNECTED) < gone.value(OPEN)
            assert [gone.value(CALLS, method=method, **UNREACHABLE) for method in ("UpdatePolicy", "GetPolicy")] == [1, 1]

            await asyncio.to_thread(broker.start)
            seconds = await until(watch, health_pb2.HealthCheckResponse.SERVING)
            print(f"ready {seconds:.1f} s after the broker was back")
            await applied(stub, 3)
            assert await value_of(stub) == (3, False)
            assert (await probes.ask("/readyz?verbose"))[0] == 200
            back = await probes.all_connected()
            assert (back.value(READY), back.value(OUT)) == (1, 0)
            assert back.value("topicpolicies_updates_total", outcome="APPLIED") == 2
        assert await asyncio.to_thread(server.stop) == 0
    finally:
        server.kill()
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    events = [line["event"] for line in lines if "event" in line]
    assert events == ["log_cut_off", "log_reached", "draining"]
    (cut_off,) = [line for line in lines if line.get("event") == "log_cut_off"]
    assert (cut_off["level"], cut_off["reason"]) == ("error", "LOG_UNAVAILABLE")
    recorded = [(line["outcome"], line.get("reason")) for line in lines if line["logger"] == "calls"]
    assert recorded.count(("APPLIED", None)) == 2 and ("UNAVAILABLE", "LOG_UNAVAILABLE") in recorded
