"""The boundary to pulsar-client: its threads, its log, its shutdown, and the calls that the sidecar uses."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.broker.pulsar_broker import Broker
from tests.eventually import eventually
from tests.ports import free_port
from topicpolicies_server.logs.avro import PULSAR_4_2_4
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.client import Inbox, PulsarClient, client_log_path, legible

ROOT = Path(__file__).resolve().parents[3]

# The inbox


async def test_items_from_many_threads_all_arrive_and_rarely_wake_the_event_loop() -> None:
    wakes = 0
    came: list[int] = []

    def wake() -> None:
        nonlocal wakes
        wakes += 1
        while inbox.items:
            came.append(inbox.items.popleft())

    inbox: Inbox[int] = Inbox(asyncio.get_running_loop(), wake)

    def put(start: int) -> None:
        for n in range(start, start + 1_000):
            inbox.put(n)

    threads = [threading.Thread(target=put, args=(start,)) for start in range(0, 4_000, 1_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    await eventually(lambda: len(came) == 4_000)
    assert sorted(came) == list(range(4_000))
    assert [n for n in came if n < 1_000] == list(range(1_000))
    assert wakes < 400


# The library's log


def test_log_lines_of_the_library_lose_their_timestamps_and_secrets() -> None:
    line = "2026-01-02 03:04:05.678 WARN  [140368809560960] ClientConnection:209 | [<none> -> pulsar://a:6650] cannot connect\n"
    assert legible(line) == "ClientConnection:209: [<none> -> pulsar://a:6650] cannot connect"
    assert legible("something | else") == "something | else"
    for secret in ("eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl", "token:abc.def", "Authorization: Bearer abc.def"):
        shown = legible(f"2026-01-02 03:04:05.678 ERROR [1] A:1 | refused {secret} there")
        assert "abc" not in shown
        assert "eyJ" not in shown
        assert shown.endswith("(secret) there")


async def test_warnings_of_the_library_reach_pythons_logging(caplog: pytest.LogCaptureFixture) -> None:
    path = client_log_path()
    assert path is not None
    assert path == client_log_path()
    with caplog.at_level(logging.WARNING, "topicpolicies_server.pulsar_client"):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"2026-01-02 03:04:05.678 ERROR [1] Here:1 | from the library\n")
        os.close(fd)
        await eventually(lambda: "Here:1: from the library" in caplog.messages)


# Messages


# Shutdown


async def test_a_producer_that_is_created_for_a_cancelled_caller_is_closed_at_the_broker(broker: Broker, namespace: str) -> None:
    client = PulsarClient(broker.service_url)
    topic = f"persistent://{namespace}/late"
    asking = asyncio.ensure_future(client.create_producer(topic, PULSAR_4_2_4, send_seconds=5, queue_size=10))
    await asyncio.sleep(0)
    asking.cancel()
    with broker.admin() as admin:

        async def exists() -> bool:
            return topic in await asyncio.to_thread(admin.call, "GET", f"persistent/{namespace}")

        async def nobody_produces() -> bool:
            return not (await asyncio.to_thread(admin.call, "GET", f"persistent/{namespace}/late/stats"))["publishers"]

        await eventually(exists)
        await eventually(nobody_produces)
    await client.close(5)


async def test_a_closed_client_refuses_requests() -> None:
    client = PulsarClient("pulsar://127.0.0.1:1")
    await client.close(5)
    await client.close(5)
    with pytest.raises(LogError, match="closed"):
        await client.create_reader("persistent://a/b/c", "name", queue_size=10)


async def test_a_request_to_an_unreachable_broker_fails_and_the_client_can_be_closed() -> None:
    client = PulsarClient(f"pulsar://127.0.0.1:{free_port()}")
    asking = asyncio.ensure_future(client.create_reader("persistent://a/b/c", "name", queue_size=10))
    await asyncio.sleep(0.3)
    async with asyncio.timeout(20):
        await client.close(4)
    asking.cancel()
    with pytest.raises((asyncio.CancelledError, LogError)):
        await asking


_UNTIDY = """
import asyncio, os, sys
from topicpolicies_server.logs.pulsar import PulsarLog
from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, an_update

kept = []

async def main(service_url, admin_url, namespace, how):
    change_log = PulsarLog(service_url, admin_url)
    recorder = Recorder()
    log = await change_log.open(namespace, recorder)
    await recorder.until_caught_up()
    kept.append(change_log)
    for n in range(200):
        recorder.append(log, an_update(a_key(namespace, n)))
    if how == "raise":
        raise RuntimeError("in the middle of it")

asyncio.run(main(*sys.argv[1:]))
print("done", flush=True)
"""


@pytest.mark.parametrize("how", ["leave", "raise"])
def test_a_process_that_does_not_close_its_log_exits_normally(broker: Broker, namespace: str, how: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _UNTIDY, broker.service_url, broker.admin_url, namespace, how],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("", "server", "clients/python"))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "terminate called" not in ended.stderr
    assert ended.returncode == (1 if how == "raise" else 0), ended.stderr
