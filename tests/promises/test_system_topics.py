"""Policies of Pulsar's system topics: a rate or a size on a change log would stall everybody, so they are shown and deleted, not set."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.broker.admin import CHANGE_EVENTS, Admin
from tests.broker.pulsar_broker import Broker
from tests.cli.programs import Ended

from .api import GLOBAL, Api, Delete, Refused, Update
from .server_process import ServerProcess, run

_NAMESPACE = "public/default"
_SYSTEM_TOPICS = [
    f"persistent://{_NAMESPACE}/{CHANGE_EVENTS}",
    f"persistent://{_NAMESPACE}/{CHANGE_EVENTS}-partition-2",
    f"persistent://{_NAMESPACE}/__transaction_buffer_snapshot",
    f"persistent://{_NAMESPACE}/__transaction_buffer_snapshot_segments",
    f"persistent://{_NAMESPACE}/__transaction_buffer_snapshot_indexes",
    f"persistent://{_NAMESPACE}/orders-billing__transaction_pending_ack",
    "persistent://pulsar/system/transaction_coordinator_assign",
    "persistent://pulsar/system/__transaction_log_0",
    "persistent://pulsar/broker-1.example:8080/healthcheck",
]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    """A server on the embedded log."""
    running = ServerProcess(["--data", str(tmp_path / "policies.db")], tmp_path / "server.log")
    await running.start()
    yield running
    running.kill()


async def test_no_call_sets_policies_of_a_system_topic(server: ServerProcess) -> None:
    async with Api(server.address) as api:
        for topic in _SYSTEM_TOPICS:
            tried = [Update(topic, mask=["publish_rate"]), Update(topic, scope=GLOBAL), Update(topic, dry_run=True, skip_if_absent=True)]
            for update in tried:
                update.policies.max_message_size = 1
                with pytest.raises(Refused) as refused:
                    await api.send(update)
                assert (refused.value.code, refused.value.reason) == ("INVALID_ARGUMENT", "SYSTEM_TOPIC"), topic
                assert [violation.field for violation in refused.value.violations] == ["topic"]
            ordinary = Update(f"persistent://{_NAMESPACE}/orders", mask=["publish_rate"])
            first, second, third = await api.batch([tried[1], ordinary, Delete(topic)])
            assert isinstance(first, Refused) and first.reason == "SYSTEM_TOPIC"
            assert not isinstance(second, Refused) and not isinstance(third, Refused)


async def test_names_that_only_resemble_theirs_are_ordinary_topics(server: ServerProcess) -> None:
    async with Api(server.address) as api:
        for name in (f"{CHANGE_EVENTS}2", f"my{CHANGE_EVENTS}", "__transaction_log_0", "__transaction_pending_acks"):
            assert (await api.update(f"persistent://{_NAMESPACE}/{name}", {"max_producer_per_topic": 1})).outcome == "APPLIED", name


async def test_a_file_does_not_set_them_and_its_patterns_skip_them(server: ServerProcess, tmp_path: Path) -> None:
    known, file = tmp_path / "topics.txt", tmp_path / "policies.yaml"
    known.write_text(f"{_NAMESPACE}/{CHANGE_EVENTS}\n{_NAMESPACE}/orders\n")

    def apply(entry: str) -> Ended:
        file.write_text(f"version: 1\npolicies:\n  - {entry}\n    set: {{max_producer_per_topic: 5}}\n")
        return run("--server", server.address, "apply", "-f", str(file), "--topics", str(known))

    applied = apply(f'pattern: "{_NAMESPACE}/*"')
    assert applied.returncode == 0, applied.stderr
    async with Api(server.address) as api:
        assert [document.topic for document in await api.documents(_NAMESPACE)] == [f"persistent://{_NAMESPACE}/orders"]
        refused = apply(f"topic: {_NAMESPACE}/{CHANGE_EVENTS}")
        assert refused.returncode != 0
        assert "system topic" in refused.stderr + refused.stdout
        assert len(await api.documents(_NAMESPACE)) == 1


async def test_what_a_broker_stored_there_is_shown_and_can_be_deleted(broker: Broker, admin: Admin, tmp_path: Path) -> None:
    namespace = admin.create_namespace("system")
    admin.create_topic(f"{namespace}/orders")
    admin.call("POST", f"persistent/{namespace}/{CHANGE_EVENTS}/maxProducers", 50)
    topic = f"persistent://{namespace}/{CHANGE_EVENTS}"
    server = ServerProcess(["--pulsar", broker.service_url, "--admin-url", broker.admin_url], tmp_path / "server.log")
    await server.start()
    try:
        async with Api(server.address) as api:
            found = await api.get(topic)
            assert found.policies is not None and found.policies.max_producer_per_topic == 50
            assert [document.topic for document in await api.documents(namespace)] == [topic]
            watched = [event.document async for event in api.watch([namespace], until_synced=True) if event.document is not None]
            assert [document.topic for document in watched] == [topic]
            assert (await api.delete(topic)).outcome == "DELETED"
            assert (await api.get(topic)).policies is None
    finally:
        server.kill()
