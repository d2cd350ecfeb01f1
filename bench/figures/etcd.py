"""etcd, 3.4 or newer, as it is packaged, and the messages of its clients: ``put`` as bytes that are made beforehand.

Debian has it (``apt-get install etcd-server``). It runs with its default settings, so every answer is for a durable write; its data is on
the same disk as the embedded log.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence

import grpc
from google.protobuf.any_pb2 import Any

from bench.load import Calls, prepared
from bench.targets import Program, running
from tests.ports import free_port

_PUT = "/etcdserverpb.KV/Put"
_LEADER_SECONDS = 30.0


def version() -> str:
    """Returns the version of the installed etcd; empty if there is none."""
    path = shutil.which("etcd")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.splitlines() if path else []
    return said[0].rpartition(" ")[2] if said else ""


@contextlib.contextmanager
def etcd() -> Iterator[Program]:
    """Runs a cluster of one member that accepts writes, for as long as the context lasts."""
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
        with running(*(f"--{name}={value}" for name, value in options.items()), program="etcd") as program:
            with grpc.insecure_channel(program.address) as channel:  # it serves calls when it has become the leader
                put: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_PUT)
                put(_put_request("elected", b""), wait_for_ready=True, timeout=_LEADER_SECONDS)
            yield program


def _put_request(key: str, value: bytes) -> bytes:
    """Returns a serialized ``PutRequest``: like an ``Any``, it has a text as field 1 and bytes as field 2."""
    return Any(type_url=key, value=value).SerializeToString()


def put_calls(channel: grpc.aio.Channel, keys: Sequence[str], value_bytes: int) -> Calls:
    """Returns puts to each key in turn, each with a new value of this many bytes."""
    put: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_PUT)
    return prepared(put, (_put_request(key, b"%0*d" % (value_bytes, number)) for number, key in enumerate(itertools.cycle(keys))))
