"""Brokers that are upgraded while logs are open: when facts are requested again, how often, and which logs are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.eventually import eventually
from tests.logs.pulsar.fakes import FakeAdmin
from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, a_tombstone
from tests.ports import free_port
from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.avro import Dialect
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog
from topicpolicies_server.logs.pulsar import log as log_module

NAMESPACE = "public/default"
OLD, NEW = "4.0.5", "4.0.6"


class Cluster(FakeAdmin):
    """The admin API of a cluster whose namespace has no log yet."""

    def __init__(self) -> None:
        settings = {"clusterName": "east"}
        super().__init__({"brokers/version": OLD, "brokers/configuration/runtime": settings, f"namespaces/{NAMESPACE}": {}})

    @property
    def questions(self) -> int:
        return self.asked.count("brokers/version")

    async def close(self) -> None:
        """Has nothing to close."""


@asynccontextmanager
async def opened(monkeypatch: pytest.MonkeyPatch, limits: PulsarLimits) -> AsyncIterator[tuple[Cluster, PulsarLog, Recorder]]:
    """Opens the change logs of a cluster with one namespace."""
    cluster = Cluster()
    monkeypatch.setattr(log_module, "Admin", lambda *_args, **_kwargs: cluster)
    logs = PulsarLog(f"pulsar://127.0.0.1:{free_port()}", "http://127.0.0.1:1", limits=limits)
    try:
        yield cluster, logs, Recorder()
    finally:
        await logs.close()


async def test_a_global_event_that_was_refused_is_accepted_after_the_brokers_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    delete = a_tombstone(a_key(NAMESPACE, scope=Scope.GLOBAL))
    async with opened(monkeypatch, PulsarLimits(creation_seconds=0.02, close_seconds=0.1, facts_seconds=0.2)) as (cluster, logs, recorder):
        log = await logs.open(NAMESPACE, recorder)
        cluster.answers["brokers/version"] = NEW
        with pytest.raises(LogError) as refused:
            recorder.append(log, delete)
        assert refused.value.reason == "NOT_EXPRESSIBLE"
        async with asyncio.timeout(20):
            await recorder.until(lambda: bool(recorder.losses))
        assert recorder.losses[0].state == LogState.LOST
        second = Recorder()
        again = await logs.open(NAMESPACE, second)
        second.append(again, delete)  # the event now waits for a producer
        await asyncio.sleep(0.1)
        assert second.losses == []


async def test_logs_are_lost_after_an_upgrade_of_their_brokers_although_nothing_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch, PulsarLimits(creation_seconds=0.02, close_seconds=0.1, facts_seconds=0.1)) as (cluster, logs, recorder):
        await logs.open(NAMESPACE, recorder)
        known = cluster.questions
        await eventually(lambda: cluster.questions > known + 1)
        assert recorder.losses == []
        only_for_new_logs = {"allowAutoTopicCreationType": "partitioned", "defaultNumPartitions": "8"}
        cluster.answers["brokers/configuration/runtime"] |= only_for_new_logs
        known = cluster.questions
        await eventually(lambda: cluster.questions > known + 1)
        assert recorder.losses == []
        cluster.answers["brokers/version"] = LogError(LogState.ADMIN_UNREACHABLE, "no answer")
        failed = cluster.questions
        await eventually(lambda: cluster.questions > failed + 1)
        assert recorder.losses == []
        cluster.answers["brokers/version"] = NEW
        await eventually(lambda: recorder.losses)
        assert recorder.losses[0].state == LogState.LOST


async def test_a_log_whose_opening_overlaps_an_upgrade_is_lost_and_can_be_opened_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(monkeypatch, PulsarLimits(creation_seconds=0.02, close_seconds=0.1, facts_seconds=0.1)) as (cluster, logs, recorder):
        await logs.open(NAMESPACE, recorder)
        slow, asked, release = cluster.get, asyncio.Event(), asyncio.Event()

        async def held_up(*path: str, seconds: float = 0) -> Any:
            if path == ("namespaces", "public", "other"):
                asked.set()
                await release.wait()
                return {}
            return await slow(*path, seconds=seconds)

        monkeypatch.setattr(cluster, "get", held_up)
        opening = asyncio.create_task(logs.open("public/other", Recorder()))
        await asked.wait()
        cluster.answers["brokers/version"] = NEW
        await eventually(lambda: recorder.losses)
        release.set()
        with pytest.raises(LogError) as lost:
            await opening
        assert lost.value.state == LogState.LOST
        again = await logs.open("public/other", Recorder())
        assert again.facts.dialect is Dialect.PREFIXED
