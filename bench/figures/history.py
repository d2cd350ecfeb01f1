"""The first page of a long history, beside that of a short one: a request reads one index in its order, whatever the length."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict

import grpc

from bench.load import fill
from bench.targets import embedded
from topicpolicies.v1 import history_pb2
from topicpolicies.v1.history_pb2_grpc import PolicyHistoryServiceStub

from .figure import Figure, Scale, in_turn

_NAMESPACE = "public/default"
_TOPICS = 64
_SHARE = 100
"""How many times as long the long history is."""
_CALLS = 50
_NAMESPACES = history_pb2.ListHistoryRequest(namespace=_NAMESPACE, page_size=10, oldest_first=True)
_TOPIC = history_pb2.ListHistoryRequest(topic=f"persistent://{_NAMESPACE}/bench-7", page_size=10)
_QUESTIONS = {"a namespace, oldest first": _NAMESPACES, "a topic, newest first": _TOPIC}


def measure(scale: Scale) -> list[Figure]:
    """Measures both histories, in turn."""
    sizes = (scale.topics, scale.topics // _SHARE)
    found: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    with embedded() as long, embedded() as short:
        servers = dict(zip(sizes, (long, short), strict=True))
        for events, server in servers.items():
            asyncio.run(fill(server.address, _NAMESPACE, _TOPICS, events))
        for events in in_turn(scale.rounds, sizes):
            with grpc.insecure_channel(servers[events].address) as channel:
                for what, request in _QUESTIONS.items():
                    found[what, events].append(_page(PolicyHistoryServiceStub(channel), request))
    first, beside = f"first page of {sizes[0]:,} events of", "of a hundredth as many"
    return [Figure(f"{first} {what}, p50", beside, "ms", found[what, sizes[0]], found[what, sizes[1]]) for what in _QUESTIONS]


def _page(stub: PolicyHistoryServiceStub, request: history_pb2.ListHistoryRequest) -> float:
    """Returns the median of the milliseconds of some calls."""
    times = []
    for _ in range(_CALLS):
        begin = time.perf_counter()
        entries = stub.ListHistory(request).entries
        times.append((time.perf_counter() - begin) * 1000)
        if not entries:
            raise RuntimeError("the history is empty")
    return statistics.median(times)
