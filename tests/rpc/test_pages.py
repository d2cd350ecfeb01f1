"""The pages of listings and of the history."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from tests.stubs import async_stub
from topicpolicies.v1.history_pb2 import ListHistoryRequest
from topicpolicies.v1.service_pb2 import UpdatePolicyRequest
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC


@pytest.mark.slow
async def test_long_masks_count_towards_the_page_size_and_very_many_changed_entries_appear_as_their_field(tmp_path: Path) -> None:
    log = EmbeddedLogConfig(path=tmp_path / "policies.db")
    config = ServerConfig(log=log, listen=parse_address("127.0.0.1:0"), history=HistoryConfig(path=tmp_path / "history.db"))
    names = [f"{number:03}{'`' * 300}" for number in range(100)]
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
        seen, token, pages = 0, "", 0
        while True:
            page = await stub.ListHistory(ListHistoryRequest(topic=TOPIC, page_size=1_000, page_token=token))
            assert page.ByteSize() < 3 << 20
            if not seen:
                assert list(page.entries[0].changed.paths) == ["subscription_policies"]
            seen += len(page.entries)
            pages += 1
            token = page.next_page_token
            if not token:
                break
    assert seen == 41
    assert pages > 1
