"""Events of topics of the domains ``topic`` and ``segment``, which Pulsar 5 writes into the same log: not supported, and no trouble."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.broker.admin import Admin
from tests.broker.pulsar_broker import Broker
from tests.promises.api import Api, Refused
from tests.promises.change_log import GLOBAL_PREFIX, ChangeLog
from tests.promises.server_process import ServerProcess
from topicpolicies.v1.policies_pb2 import TopicPolicies

EACH = 20


def write(broker: Broker, admin: Admin) -> str:
    """Writes a log with many such events, some GLOBAL, and one of an ordinary topic; returns its namespace."""
    namespace = admin.create_namespace("domains")
    admin.create_topic(f"{namespace}/orders")
    admin.call("POST", f"persistent/{namespace}/orders/messageTTL", None, messageTTL="7")
    with ChangeLog(broker, namespace) as log:
        (ordinary,) = log.stored()
        for number in range(EACH):
            for prefix in ("topic://", "segment://", f"{GLOBAL_PREFIX}segment://"):
                log.write_event(f"{prefix}{namespace}/orders-{number}", ordinary.event, ["standalone"])
    return namespace


async def test_other_domains_are_logged_once_a_load_and_refused(broker: Broker, admin: Admin, tmp_path: Path) -> None:
    namespace, output = await asyncio.to_thread(write, broker, admin), tmp_path / "server.log"
    server = ServerProcess(["--pulsar", broker.service_url, "--admin-url", broker.admin_url], output)
    for load in (1, 2):
        await server.start()
        async with Api(server.address) as api:
            (document,) = await api.documents(namespace)
            assert document.policies == TopicPolicies(message_ttl_in_seconds=7)
            if load == 2:
                for domain in ("topic", "segment"):
                    with pytest.raises(Refused, match=f'the domain "{domain}" are not supported, only .*persistent') as refused:
                        await api.update(f"{domain}://{namespace}/orders-1", {"message_ttl_in_seconds": 8})
                    assert refused.value.reason == "MALFORMED_NAME"
        server.stop()
        lines = [line for line in output.read_text().splitlines() if "unreadable" in line]
        assert ['"topic"' in line or '"segment"' in line for line in lines] == [True] * 2 * load, lines
