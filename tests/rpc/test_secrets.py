"""No answer of a server has the secrets of an object storage, unless the server is configured to show them."""

from __future__ import annotations

import logging
from dataclasses import replace

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from tests.rpc.conftest import TOPIC, refused
from tests.rpc.watching import WatchReader
from tests.stubs import AsyncStub, async_stub
from topicpolicies.secrets import REDACTED
from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1 import service_pb2
from topicpolicies_server.config import EmbeddedLogConfig, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server

NAMESPACE = "public/default"


def policies(value: str = "hush") -> pb.TopicPolicies:
    offload = pb.OffloadPolicies(
        managed_ledger_offload_driver="aws-s3",
        managed_ledger_offload_bucket="bucket",
        s3_managed_ledger_offload_credential_secret=value,
    )
    offload.managed_ledger_extra_configurations["storage.token"] = value
    return pb.TopicPolicies(offload_policies=offload, max_producer_per_topic=5)


async def everything(stub: AsyncStub) -> bytes:
    """Returns all answers of a server that concern the topic, as bytes."""
    answers: list[Message] = [
        await stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=policies())),
        await stub.GetPolicy(service_pb2.GetPolicyRequest(topic=TOPIC)),
        await stub.ListPolicies(service_pb2.ListPoliciesRequest(namespace=NAMESPACE)),
    ]
    watch = WatchReader(stub, namespaces=[NAMESPACE], include_previous=True)
    answers += [event for event in await watch.until_synced() if not event.HasField("status")]
    change = service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=pb.TopicPolicies(max_producer_per_topic=6), include_previous=True)
    batch = service_pb2.UpdatePoliciesRequest(changes=[service_pb2.PolicyChangeRequest(update=change)])
    answers += [message async for message in stub.UpdatePolicies(iter([batch]))]
    answers.append(await watch.change())
    watch.cancel()
    answers.append(await stub.DeletePolicy(service_pb2.DeletePolicyRequest(topic=TOPIC, include_previous=True)))
    assert len(answers) == 8
    return b"".join(answer.SerializeToString() for answer in answers)


async def test_no_answer_and_no_line_of_the_log_has_a_secret(stub: AsyncStub, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        raw = await everything(stub)
    assert b"hush" not in raw
    assert raw.count(REDACTED.encode()) >= 12
    assert "hush" not in caplog.text


async def test_a_server_with_show_secrets_shows_secrets_and_logs_that_it_does(caplog: pytest.LogCaptureFixture) -> None:
    config = ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), show_secrets=True)
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
        raw = await everything(async_stub(channel))
    assert "show_secrets: every caller who may read sees" in caplog.text
    assert raw.count(b"hush") >= 12
    assert REDACTED.encode() not in raw
    assert not replace(config, show_secrets=False).show_secrets


async def test_writing_back_a_document_with_redacted_secrets_changes_nothing(stub: AsyncStub) -> None:
    first = await stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=policies()))
    for paths in (["*"], ["offload_policies"], []):
        answer = await stub.UpdatePolicy(
            service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=first.document.policies, update_mask=FieldMask(paths=paths))
        )
        assert answer.outcome == service_pb2.UPDATE_OUTCOME_UNCHANGED
        assert answer.document == first.document


async def test_a_redacted_value_where_no_secret_is_stored_is_refused(stub: AsyncStub) -> None:
    refusal = await refused(stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=policies(REDACTED))))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.info.reason == "REDACTED_SECRET"
    assert len(refusal.violations) == 2
