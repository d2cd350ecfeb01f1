"""etcd, 3.4 or newer, as it is packaged, and the messages of its clients: ``put`` as bytes that are made beforehand.

Debian has it (``apt-get install etcd-server``). It runs with its default settings, so every answer is for a durable write; its data is on
the same disk as the embedded log.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Iterator

import grpc

from bench.load import Calls
from bench.targets import Program, running
from tests.ports import free_port

PUT = "/etcdserverpb.KV/Put"
PROGRAM = "etcd"
_LEADER_SECONDS = 30.0
_PAUSE_SECONDS = 0.1
_READY = 20_000
"""How many messages are made before a loop begins, as for updates."""


def version() -> str:
    """Returns the version of the installed etcd; empty if there is none."""
    path = shutil.which(PROGRAM)
    if path is None:
        return ""
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    return said[0].rpartition(" ")[2] if said else ""


@contextlib.contextmanager
def etcd() -> Iterator[Program]:
    """Runs a cluster of one member, for as long as the context lasts."""
    peer = f"http://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as directory:
        options = {
            "data-dir": directory,
            "listen-client-urls": "http://ADDRESS",
            "advertise-client-urls": "http://ADDRESS",
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "logger": "zap",
            "log-level": "error",
        }
        with running(*(f"--{name}={value}" for name, value in options.items()), program=PROGRAM) as program:
            yield program


async def elected(channel: grpc.aio.Channel) -> None:
    """Waits until etcd accepts writes.

    Raises:
        grpc.aio.AioRpcError: it accepted none in time.
    """
    put: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(PUT)
    until = time.monotonic() + _LEADER_SECONDS
    while True:
        try:
            await put(put_request(b"elected", b""), wait_for_ready=True, timeout=_LEADER_SECONDS)
        except grpc.aio.AioRpcError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return


def put_request(key: bytes, value: bytes) -> bytes:
    """Returns a serialized ``PutRequest``: the key is field 1, the value field 2."""
    return b"\x0a" + _sized(key) + b"\x12" + _sized(value)


def _sized(text: bytes) -> bytes:
    size, number = bytearray(), len(text)
    while number > 0x7F:
        size.append(number & 0x7F | 0x80)
        number >>= 7
    size.append(number)
    return bytes(size) + text


def put_calls(channel: grpc.aio.Channel, keys: list[bytes], value_bytes: int) -> Calls:
    """Returns puts to each key in turn, each with a new value of this many bytes."""
    put: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(PUT)
    messages = (put_request(key, b"%0*d" % (value_bytes, number)) for number, key in enumerate(itertools.cycle(keys)))
    ready: deque[bytes] = deque()

    def call() -> Awaitable[object]:
        return put(ready.popleft() if ready else next(messages))

    def refill() -> None:
        ready.extend(next(messages) for _ in range(_READY - len(ready)))

    return Calls(call, refill)
