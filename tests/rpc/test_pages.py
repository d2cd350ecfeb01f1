"""The pages of listings and of the history."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from tests.stubs import async_stub
from topicpolicies.v1.policies_pb2 import EntryFilters, TopicPolicies
from topicpolicies.v1.service_pb2 import (
    HISTORY_ORDER_OLDEST_FIRST,
    WATCH_MODE_ENTRIES,
    ListHistoryRequest,
    ListPoliciesRequest,
    UpdatePolicyRequest,
)
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC
from .watching import WatchReader


async def test_pages_are_no_larger_than_every_client_can_receive_and_miss_nothing(tmp_path: Path) -> None:
    """By default, gRPC's clients receive messages of at most 4 MiB."""
    log = EmbeddedLogConfig(path=tmp_path / "policies.db")
    config = ServerConfig(log=log, listen=parse_address("127.0.0.1:0"), history=HistoryConfig(path=tmp_path / "history.db"))
    topics = [f"{TOPIC}-{number:02}" for number in range(12)]
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
        stub = async_stub(channel)
        for topic in topics:
            policies = TopicPolicies(entry_filters=EntryFilters(entry_filter_names=topic[-1] * 1_000_000))
            await stub.UpdatePolicy(UpdatePolicyRequest(topic=topic, policies=policies))
        listed: list[str] = []
        entries: list[str] = []
        page = ListPoliciesRequest(namespace="public/default", page_size=1_000)
        while True:
            answer = await stub.ListPolicies(page)
            assert answer.ByteSize() < 3 << 20
            listed += [document.topic for document in answer.documents]
            page.page_token = answer.next_page_token
            if not page.page_token:
                break
        history = ListHistoryRequest(namespace="public/default", page_size=1_000, order=HISTORY_ORDER_OLDEST_FIRST)
        while True:
            recorded = await stub.ListHistory(history)
            assert recorded.ByteSize() < 3 << 20
            entries += [entry.document.topic for entry in recorded.entries]
            history.page_token = recorded.next_page_token
            if not history.page_token:
                break
        copied = WatchReader(stub, namespaces=["public/default"], mode=WATCH_MODE_ENTRIES, end_when_synced=True)
        watched = [event.entry.document.topic for event in await copied.rest() if event.HasField("entry")]
    assert listed == entries == watched == topics


@pytest.mark.slow
async def test_long_masks_count_towards_the_page_size_and_very_many_changed_entries_appear_as_their_field(tmp_path: Path) -> None:
    log = EmbeddedLogConfig(path=tmp_path / "policies.db")
    config = ServerConfig(log=log, listen=parse_address("127.0.0.1:0"), history=HistoryConfig(path=tmp_path / "history.db"))
    names = [f"{number:03}{'`' * 40}" for number in range(600)]
    paths = [f"subscription_policies.`{name.replace('`', '``')}`" for name in names]
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
        stub = async_stub(channel)
        for value in range(40):
            request = UpdatePolicyRequest(topic=TOPIC)
            request.update_mask.paths.extend(paths)
            for name in names:
                request.policies.subscription_policies[name].dispatch_rate.dispatch_throttling_rate_in_msg = value + 1
            await stub.UpdatePolicy(request)
        many = UpdatePolicyRequest(topic=TOPIC)
        many.update_mask.paths.append("subscription_policies")
        for number in range(4_000):
            many.policies.subscription_policies[f"{number}"].dispatch_rate.dispatch_throttling_rate_in_msg = 1
        await stub.UpdatePolicy(many)
        seen, token = 0, ""
        while True:
            page = await stub.ListHistory(ListHistoryRequest(topic=TOPIC, page_size=1_000, page_token=token))
            assert page.ByteSize() < 3 << 20
            if not seen:
                assert list(page.entries[0].changed.paths) == ["subscription_policies"]
            seen += len(page.entries)
            token = page.next_page_token
            if not token:
                break
    assert seen == 41
