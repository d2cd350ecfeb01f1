"""Whether a server is alive and ready: the health service, the probes over HTTP, metrics; and what goes on without its files."""

from __future__ import annotations

import asyncio
import http.client
import shutil
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.ports import free_port

from .api import Api, Change, Refused
from .conftest import Embedded, Serving
from .server_process import ServerProcess
from .watching import documents, kinds, whole

NAMESPACE = "public/default"
TOPIC = f"persistent://{NAMESPACE}/orders"


def fetch(address: str, path: str, method: str = "GET") -> tuple[int, str]:
    """Makes a request over HTTP; returns the status and the body."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


async def health(server: ServerProcess, service: str = "") -> str:
    """Returns the status of a service by the health service, or the code of its error."""
    async with server.channel() as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


async def test_the_health_service_answers_for_the_server_and_its_parts(embedded: Embedded) -> None:
    for service in ("", "topicpolicies.v1.TopicPoliciesService", "liveness", "readiness"):
        assert await health(embedded.server, service) == "SERVING", service
    assert await health(embedded.server, "no.such.Service") == "NOT_FOUND"


async def test_a_watch_of_the_health_says_when_the_server_stops(serving: Serving) -> None:
    server = await serving()
    async with server.channel() as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        call = stub.Watch(health_pb2.HealthCheckRequest())
        names = health_pb2.HealthCheckResponse.ServingStatus
        assert names.Name((await call.read()).status) == "SERVING"
        stopping = asyncio.create_task(asyncio.to_thread(server.stop))
        assert names.Name((await call.read()).status) == "NOT_SERVING"
        call.cancel()
        assert await stopping == 0


def test_probes_over_http_answer_and_other_paths_do_not(embedded: Embedded) -> None:
    assert [fetch(embedded.http, path)[0] for path in ("/livez", "/readyz", "/metrics", "/nothing")] == [200, 200, 200, 404]
    assert fetch(embedded.http, "/metrics", "POST")[0] in (404, 405)


async def test_metrics_count_calls_and_name_no_topic(embedded: Embedded, api: Api, topic: str) -> None:
    def count(text: str) -> float:
        lines = [line for line in text.splitlines() if line.startswith("topicpolicies_calls_total{") and 'method="UpdatePolicy"' in line]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    before = count((await asyncio.to_thread(fetch, embedded.http, "/metrics"))[1])
    await api.update(topic, {"max_producer_per_topic": 1})
    with pytest.raises(Refused):
        await api.update(topic, {"max_producer_per_topic": -1})
    async with asyncio.timeout(5):  # a call is counted when it has ended, which its caller may see first
        while count(text := (await asyncio.to_thread(fetch, embedded.http, "/metrics"))[1]) < before + 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert count(text) == before + 2
    assert "topicpolicies_ready 1" in text and "orders" not in text


async def test_a_server_that_is_not_there_any_more_is_not_ready(serving: Serving) -> None:
    at = f"127.0.0.1:{free_port()}"
    server = await serving("--metrics-listen", at)
    assert (await asyncio.to_thread(fetch, at, "/readyz"))[0] == 200
    server.kill()
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(fetch, at, "/readyz")


# The log's file


async def test_while_the_file_is_away_changes_are_refused_and_reads_go_on(serving: Serving, tmp_path: Path) -> None:
    server = await serving()
    path, away = tmp_path / "policies.db", tmp_path / "away.db"
    async with Api(server.address) as api:
        made = await api.update(TOPIC, {"max_producer_per_topic": 1})
        path.rename(away)
        async with asyncio.timeout(20):
            while True:
                try:
                    made = await api.delete(TOPIC)
                    made = await api.update(TOPIC, {"max_producer_per_topic": 1})
                except Refused as refusal:
                    assert refusal.code == "UNAVAILABLE"
                    break
        before = await api.get(TOPIC)
        assert before.version >= made.version
        away.rename(path)
        last: Change | None = None
        async with asyncio.timeout(20):
            while last is None:
                try:
                    last = await api.update(TOPIC, {"max_producer_per_topic": 3})
                except Refused as refusal:
                    assert refusal.code == "UNAVAILABLE"
                    await asyncio.sleep(0.1)
        server.kill()
        await server.start()
        assert await api.get(TOPIC) == last.document


async def test_a_restored_backup_is_another_log_and_its_versions_go_on(serving: Serving, tmp_path: Path) -> None:
    server = await serving()
    path, backup = tmp_path / "policies.db", tmp_path / "backup.db"
    async with Api(server.address) as api:
        first = await api.update(TOPIC, {"max_producer_per_topic": 1})
        assert server.stop() == 0
        shutil.copy(path, backup)
        await server.start()
        lost = await api.update(TOPIC, {"max_producer_per_topic": 2})
        token = (await whole(api, [NAMESPACE]))[-1].token
        assert server.stop() == 0
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        shutil.copy(backup, path)
        await server.start()
        restored = await api.get(TOPIC)
        assert first.document is not None and restored.policies == first.document.policies
        events = await whole(api, [NAMESPACE], resume={NAMESPACE: token})
        assert kinds(events) == ["reset", "change", "synced"] and documents(events) == [restored]
        with pytest.raises(Refused) as refused:
            await api.update(TOPIC, {"max_producer_per_topic": 3}, version=lost.version)
        assert refused.value.reason == "PRECONDITION_FAILED"
        after = await api.update(TOPIC, {"max_producer_per_topic": 3})
        assert after.version > lost.version, "no earlier version is mistaken for a new one"
