"""The admin REST of a broker with the plug-in beside that of a stock broker: sets of one topic by 8 clients."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from functools import partial
from pathlib import Path

import httpx

from bench.load import closed_loop, rest_calls
from tests.broker.pulsar_broker import OwnBroker
from tests.promises.plugin.pair import KEEP_TOPICS, Pair

from .figure import Figure, Scale, in_rounds

_NAMESPACE = "public/bench"
_CLIENTS = 8
_WARM_UP_CALLS = 300
"""So many that both brokers have compiled their code."""


def measure(scale: Scale) -> list[Figure]:
    """Measures both brokers, round by round."""
    with contextlib.ExitStack() as stack:
        pair = Pair(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.callback(pair.close)
        pair.start()
        stock = stack.enter_context(OwnBroker(settings=KEEP_TOPICS))
        for broker in (pair.broker, stock):
            with broker.admin() as admin:
                admin.call("PUT", f"namespaces/{_NAMESPACE}", {"replication_clusters": ["standalone"]})
                admin.create_topic(f"{_NAMESPACE}/bench-0")
        ours, limit = asyncio.run(_rounds((pair.broker.admin_url, stock.admin_url), scale))
    what = "admin REST of a broker with the plug-in, 8 clients set one topic"
    return [Figure(what, "a stock broker", "/s", ours, limit, at_least=3.0)]


async def _rounds(urls: tuple[str, str], scale: Scale) -> list[list[float]]:
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=30, trust_env=False)) for url in urls]
        calls = [rest_calls(client, _NAMESPACE) for client in clients]
        for each in calls:
            await closed_loop(each, _CLIENTS, count=_WARM_UP_CALLS)
        loads = {number: partial(closed_loop, each, _CLIENTS, scale.seconds) for number, each in enumerate(calls)}
        found = await in_rounds(scale.rounds, loads)
    return [[sample.per_second for sample in samples] for samples in found.values()]
