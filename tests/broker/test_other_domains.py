"""Events of topics of the domains ``topic`` and ``segment``, which Pulsar 5 writes into the same log: not supported, and no trouble."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.pulsar_broker import Broker
from tests.logs.change_events import ChangeEvents
from tests.promises.api import Api, Refused
from tests.promises.server_process import ServerProcess
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.core.policies.events import Action, Event

_EACH = 20


@pytest.fixture
def written(broker: Broker, namespace: str) -> Iterator[ChangeEvents]:
    """A log with many such events, some GLOBAL, and one of an ordinary topic."""
    with ChangeEvents(broker.service_url, namespace) as log:
        ordinary = Event(
            PolicyKey(f"persistent://{namespace}/orders", Scope.LOCAL), Action.UPDATE, split(TopicPolicies(message_ttl_in_seconds=7))
        )
        message = log.write(ordinary)
        for number in range(_EACH):
            for prefix in ("topic://", "segment://", "__G__segment://"):
                log.write_message(message._replace(key=f"{prefix}{namespace}/orders-{number}"))
        yield log


async def test_they_are_logged_once_a_load_and_who_names_one_reads_what_is_supported(
    written: ChangeEvents, broker: Broker, tmp_path: Path
) -> None:
    namespace, output = written.namespace, tmp_path / "server.log"
    server = ServerProcess(["--pulsar", broker.service_url, "--admin-url", broker.admin_url], output)
    for load in (1, 2):
        await server.start()
        async with Api(server.address) as api:
            (document,) = await api.documents(namespace)
            assert document.policies is not None and document.policies.message_ttl_in_seconds == 7
        server.stop()
        lines = [line for line in output.read_text().splitlines() if "unreadable" in line]
        assert ['"topic"' in line or '"segment"' in line for line in lines] == [True] * 2 * load, lines
    await server.start()
    async with Api(server.address) as api:
        for domain in ("topic", "segment"):
            with pytest.raises(Refused, match=f'the domain "{domain}" are not supported, only .*persistent') as refused:
                await api.update(f"{domain}://{namespace}/orders-1", {"message_ttl_in_seconds": 8})
            assert refused.value.reason == "MALFORMED_NAME"
    server.kill()
