"""The cost of taking messages from pulsar-client's reader: requested one after the other, or handed over to its listener.

    python -m bench.receiving [--messages 20000] [--runs 5]

It starts a broker, writes this many messages of 500 bytes, and reads them from the beginning in both ways in turn, each with a new client.
It prints the fastest, the median and the slowest run of each, and how many messages a listener that takes none was given meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from typing import Any

import _pulsar
import pulsar

from tests.broker.pulsar_broker import OwnBroker
from topicpolicies_server.logs.pulsar.client import Inbox, PulsarClient, close_handle
from topicpolicies_server.logs.pulsar.partition import Receiver

_QUEUE = 1_000
_IDLE_SECONDS = 1.0


def main() -> None:
    """Measures both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with OwnBroker() as broker:
        with broker.admin() as admin:
            topic = f"persistent://{admin.create_namespace('bench')}/messages"
        write(broker.service_url, topic, options.messages)
        asyncio.run(measure(broker.service_url, topic, options.messages, options.runs))


def write(service_url: str, topic: str, messages: int) -> None:
    """Writes messages without batching, as brokers do."""
    client = pulsar.Client(service_url)
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    for _ in range(messages):
        producer.send_async(b"x" * 500, lambda *_: None)
    producer.flush()
    client.close()


async def measure(service_url: str, topic: str, messages: int, runs: int) -> None:
    """Reads in both ways in turn, and prints the times."""
    took: dict[str, list[tuple[float, float]]] = {"asked for": [], "listener": []}
    for _ in range(runs):
        took["asked for"].append(await asked_for(service_url, topic, messages))
        took["listener"].append(await listened_to(service_url, topic, messages))
    for way, pairs in took.items():
        for what, seconds in (("wall", [wall for wall, _ in pairs]), ("processor", [processor for _, processor in pairs])):
            print(f"{way}, {what}: {min(seconds):.2f} / {statistics.median(seconds):.2f} / {max(seconds):.2f} s", flush=True)
    given = await given_to_nobody(service_url, topic)
    print(f"a listener whose messages nobody takes was given {given:,} of {messages:,} in {_IDLE_SECONDS:g} s, with a queue of {_QUEUE:,}")


async def asked_for(service_url: str, topic: str, messages: int) -> tuple[float, float]:
    """Reads with the receiver of change logs. Returns seconds, and seconds of processor time."""
    client = PulsarClient(service_url)
    began, processor = time.perf_counter(), time.process_time()
    handle = await client.create_reader(topic, "asked", queue_size=_QUEUE)
    receiver = Receiver(handle)
    count = 0
    while count < messages:
        batch = receiver.take()
        count += len(batch)
        if batch:
            await asyncio.sleep(0)
        else:
            await receiver.wait(10)
    took = time.perf_counter() - began, time.process_time() - processor
    await close_handle(handle)
    await client.close(5)
    return took


class Listening:
    """A reader with a listener, which puts messages into an inbox."""

    def __init__(self, service_url: str) -> None:
        self.came = asyncio.Event()
        self.inbox: Inbox[Any] = Inbox(asyncio.get_running_loop(), self.came.set)
        self.client = PulsarClient(service_url)

    async def open(self, topic: str) -> Any:
        """Connects the reader."""
        configuration = _pulsar.ReaderConfiguration()
        configuration.read_compacted(True)
        configuration.start_message_id_inclusive(True)
        configuration.subscription_role_prefix("__system_reader")
        configuration.receiver_queue_size(_QUEUE)
        configuration.reader_listener(lambda _, message: self.inbox.put(message))
        client, start = self.client, _pulsar.MessageId.earliest
        library = client._client  # noqa: SLF001 - what is measured is not offered by the client of change logs
        return await client._ask(lambda done: library.create_reader_async_v2(topic, start, configuration, done))  # noqa: SLF001 - the same


async def listened_to(service_url: str, topic: str, messages: int) -> tuple[float, float]:
    """Reads with a listener. Returns seconds, and seconds of processor time."""
    listening = Listening(service_url)
    began, processor = time.perf_counter(), time.process_time()
    handle = await listening.open(topic)
    count = 0
    while count < messages:
        await listening.came.wait()
        listening.came.clear()
        while listening.inbox.items:
            listening.inbox.items.popleft().message_id()
            count += 1
    took = time.perf_counter() - began, time.process_time() - processor
    await close_handle(handle)
    await listening.client.close(5)
    return took


async def given_to_nobody(service_url: str, topic: str) -> int:
    """Returns how many messages a listener is given whose queue is not read."""
    listening = Listening(service_url)
    handle = await listening.open(topic)
    await asyncio.sleep(_IDLE_SECONDS)
    given = len(listening.inbox.items)
    await close_handle(handle)
    await listening.client.close(5)
    return given


if __name__ == "__main__":
    main()
