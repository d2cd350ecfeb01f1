"""A program that ends right after its client was closed: no thread of gRPC is stopped while it holds a lock."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from tests.client.fault_service import FaultService
from topicpolicies.stream_threads import StreamThreads

TOPIC = "persistent://public/default/orders"
PROGRAM = """
import os, sys, threading, time
import grpc
from grpc import _channel
import topicpolicies as tp

handle_event = _channel._handle_event

def slowly(event, state, *more):  # the thread that handles the end of a stream pauses while it holds the stream's lock
    if any(each.type() == grpc._cython.cygrpc.OperationType.receive_status_on_client for each in event.batch_operations):
        print("handled", flush=True)
        time.sleep(0.5)
    return handle_event(event, state, *more)

_channel._handle_event = slowly
kept = []
with tp.Client(sys.argv[1]) as client:
    if sys.argv[2] == "changes":
        kept.append(client.update_many([tp.Update(sys.argv[3], max_producer_per_topic=3)]))
        assert [each.error for each in kept[0]] == [None]
    elif sys.argv[2] == "left":
        kept.append(client.update_many((tp.Update(sys.argv[3], max_producer_per_topic=each) for each in range(9)), max_in_flight=1))
        assert next(kept[0]).error is None
    else:
        kept.append(client.watch(namespaces=["public/default"]))
        assert next(kept[0])
print([each.name for each in threading.enumerate() if "patience" not in each.name], flush=True)
kept[:] = [kept, grpc]  # found by the collector, at the end
"""


async def ended(source: str, *arguments: str) -> tuple[int | None, str, str]:
    """Runs a program to its end; returns its exit code, its output and its errors."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", source, *arguments,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    try:
        output, errors = await asyncio.wait_for(program.communicate(), 30)
    finally:
        if program.returncode is None:
            program.kill()
    return program.returncode, output.decode(), errors.decode()


@pytest.mark.parametrize("stream", ["changes", "left", "watch"])
async def test_a_program_that_ends_right_after_its_stream_was_closed_exits_without_errors(
    address: str, service: FaultService, stream: str
) -> None:
    service.model.write("public/default", "orders", 1)
    code, output, errors = await ended(PROGRAM, address, stream, TOPIC)
    assert (code, errors) == (0, "")
    assert output.splitlines() == ["handled", "['MainThread']"]


CLOSES_LATE = """
import sys
import topicpolicies as tp

class Owner:
    def __init__(self):
        self.client = tp.Client(sys.argv[1])
        if sys.argv[2] == "changes":
            changes = [tp.Update(sys.argv[3], max_producer_per_topic=each) for each in range(9)]
            self.stream = self.client.update_many(changes, max_in_flight=1)
            next(self.stream)
        elif sys.argv[2] == "watch":
            self.stream = self.client.watch(namespaces=["public/default"])
            next(self.stream)
        else:
            self.stream = self.client.cache(namespaces=["public/default"])
            assert self.stream.wait_synced(20)

    def __del__(self):
        self.stream.close()
        self.client.close()
        print("closed", flush=True)

owner = Owner()
owner.itself = owner  # found by the collector, when the interpreter exits
"""


@pytest.mark.parametrize("stream", ["changes", "watch", "cache"])
async def test_a_client_that_a_finalizer_closes_while_the_interpreter_exits_does_not_keep_it(
    address: str, service: FaultService, stream: str
) -> None:
    service.model.write("public/default", "orders", 1)
    code, output, errors = await ended(CLOSES_LATE, address, stream, TOPIC)
    assert (code, output, errors) == (0, "closed\n", "")


class Call:
    """A fake call of a stream."""

    def __init__(self, *, ended: bool) -> None:
        self.ended = ended

    def add_callback(self, callback: Callable[[], object]) -> bool:
        if not self.ended:
            callback()
        return not self.ended


def test_waiting_skips_the_current_thread_ended_streams_and_streams_that_never_began() -> None:
    threads = StreamThreads()
    threads.began(Call(ended=True))
    threads.began(Call(ended=False))
    threads.sending(iter([1]))
    threads.not_begun()
    began = time.monotonic()
    threads.wait(60)
    assert time.monotonic() - began < 30


def test_a_sending_thread_is_waited_for_at_most_the_given_time() -> None:
    threads, released = StreamThreads(), threading.Event()
    taking = threads.sending(iter([1]))
    sender = threading.Thread(target=lambda: (next(taking), released.wait(30)))
    sender.start()
    threads.wait(0.01)
    assert sender.is_alive()
    released.set()
    threads.wait(30)
    assert not sender.is_alive()
