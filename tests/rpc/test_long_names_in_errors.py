"""An error that names a topic with the longest name arrives as what it is: peers drop answers whose metadata is longer than 8 KiB."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import grpc
import pytest
from google.protobuf.message import Message

from tests.stubs import AsyncStub, batch
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import DeletePolicyRequest, Precondition, UpdatePolicyRequest
from topicpolicies_server.core.errors import Kind, PolicyError, Violation
from topicpolicies_server.core.reasons import Reason, ViolationReason
from topicpolicies_server.rpc import errors

from .conftest import refused

STEM = "persistent://public/default/"
NAMES = {letter: STEM + letter * (1_024 - len(STEM)) for letter in ("x", "%", "ü", "€", "\N{GRINNING FACE}")}
POLICIES = TopicPolicies(max_producer_per_topic=1)
REPEATED, FIRST_ID = 5, "0" * 32
"""How often each request is made: above 8 KiB a peer refuses at random."""

NEVER = Precondition(version="f" * 256)
Asked = Callable[[AsyncStub, str], Awaitable[Message]]
CASES: dict[str, tuple[Asked, grpc.StatusCode, str]] = {
    "version": (
        lambda stub, topic: stub.UpdatePolicy(UpdatePolicyRequest(topic=topic, policies=POLICIES, precondition=NEVER)),
        grpc.StatusCode.ABORTED,
        "PRECONDITION_FAILED",
    ),
    "deletion": (
        lambda stub, topic: stub.DeletePolicy(DeletePolicyRequest(topic=topic, precondition=NEVER)),
        grpc.StatusCode.ABORTED,
        "PRECONDITION_FAILED",
    ),
    "exists": (
        lambda stub, topic: stub.UpdatePolicy(UpdatePolicyRequest(topic=topic, policies=POLICIES, precondition=Precondition(exists=False))),
        grpc.StatusCode.ABORTED,
        "PRECONDITION_FAILED",
    ),
    "repeated id": (
        lambda stub, topic: stub.DeletePolicy(DeletePolicyRequest(topic=topic, request_id=FIRST_ID)),
        grpc.StatusCode.INVALID_ARGUMENT,
        "REQUEST_ID_REUSED",
    ),
}


@pytest.mark.parametrize("letter", NAMES)
@pytest.mark.parametrize("case", CASES)
async def test_an_error_that_names_the_longest_topic_has_its_status_and_its_details(stub: AsyncStub, letter: str, case: str) -> None:
    topic, (asked, code, reason) = NAMES[letter], CASES[case]
    await stub.UpdatePolicy(UpdatePolicyRequest(topic=topic, policies=POLICIES, request_id=FIRST_ID))
    for _ in range(REPEATED):
        refusal = await refused(asked(stub, topic))
        assert (refusal.code, refusal.info.reason) == (code, reason)
        assert refusal.info.metadata.get("topic", topic) == topic, "programs are told the whole name"
        assert refusal.message.endswith((" and decide anew.", ": a new request needs a new id.")), "what to do"


async def test_the_result_of_a_change_of_a_batch_has_the_same_code_and_details(stub: AsyncStub) -> None:
    for topic in NAMES.values():
        update = UpdatePolicyRequest(topic=topic, policies=POLICIES, precondition=NEVER)
        results = (await stub.BatchUpdatePolicies(batch(update))).results
        alone = await refused(stub.UpdatePolicy(update))
        assert [result.error.code for result in results] == [alone.code.value[0]]


@pytest.mark.parametrize("letter", NAMES)
@pytest.mark.parametrize("violations", [0, 1, 1_000])
def test_every_status_has_room_in_the_metadata_that_peers_accept(letter: str, violations: int) -> None:
    named = tuple(Violation("topic", ViolationReason.MALFORMED_NAME, letter * 300) for _ in range(violations))
    metadata = {"topic": NAMES[letter], "scope": "GLOBAL", "version": "f" * 256} if not violations else {}
    error = PolicyError(Kind.ABORTED, Reason.PRECONDITION_FAILED, letter * 5_000, metadata=metadata, violations=named)
    _, message, ((_, details),) = errors.trailer(error)
    escaped = sum(1 if 0x20 <= byte < 0x7F and byte != 0x25 else 3 for byte in message.encode())
    assert 160 + 2 * 64 + escaped + (len(details) + 2) // 3 * 4 <= 8_192, "with the other headers, as peers count without binary headers"


def test_an_error_that_names_a_file_whose_name_is_not_valid_unicode_is_told() -> None:
    error = PolicyError(Kind.UNAVAILABLE, Reason.LOG_FILE_UNUSABLE, "/data/\udcff/policies.db can't be opened: disk I/O error.")
    assert errors.trailer(error)[1] == "/data/\\udcff/policies.db can't be opened: disk I/O error."
