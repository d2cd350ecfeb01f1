"""A client of another project that knows only the server's reflection: ``buf curl`` makes every call."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from google.rpc import error_details_pb2

from tests.promises.server_process import ServerProcess
from topicpolicies.v1 import service_pb2

pytestmark = pytest.mark.slow
_BUF = Path(sys.executable).with_name("buf")
"""The program, which is installed with the test dependencies. None of this project's clients uses its implementation of gRPC."""
_SERVICE = service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"]
_NAMESPACE = "raw/calls"
_TOPIC = f"persistent://{_NAMESPACE}/orders"


class Refused(Exception):
    """Raised for a call that failed."""

    def __init__(self, error: dict[str, Any]) -> None:
        """``said``: the error as ``buf curl`` printed it."""
        super().__init__(error)
        self.code: str = error["code"]
        details = {detail["type"]: base64.b64decode(detail["value"] + "==") for detail in error.get("details", ())}
        self.reason = error_details_pb2.ErrorInfo.FromString(details["google.rpc.ErrorInfo"]).reason
        violations = error_details_pb2.BadRequest.FromString(details.get("google.rpc.BadRequest", b""))
        self.violations = [violation.reason for violation in violations.field_violations]


class Raw:
    """Calls a server with ``buf curl``."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.called: set[str] = set()

    async def call(self, method: str, *messages: dict[str, Any]) -> list[dict[str, Any]]:
        """Makes a call and returns its responses.

        Raises:
            Refused: the call failed.
        """
        self.called.add(method)
        url = f"http://{self._address}/{_SERVICE.full_name}/{method}"
        command = [str(_BUF), "curl", "--protocol=grpc", "--timeout=20s", "--data=@-", url]
        request = "\n".join(map(json.dumps, messages))
        done = await asyncio.to_thread(subprocess.run, command, input=request, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            assert done.returncode >= 8, done.stderr  # a lower code means that it made no call
            raise Refused(json.loads(done.stderr))
        return _documents(done.stdout)

    async def one(self, method: str, message: dict[str, Any]) -> dict[str, Any]:
        """Makes a call and returns its only response."""
        (answer,) = await self.call(method, message)
        return answer


def _documents(text: str) -> list[dict[str, Any]]:
    """Parses concatenated JSON documents."""
    decoder, found, text = json.JSONDecoder(), [], text.lstrip()
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].lstrip()
    return found


@pytest_asyncio.fixture
async def raw(tmp_path: Path) -> AsyncIterator[Raw]:
    """A server with a history and a cluster file."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(f'cluster = "us"\n[broker]\n[namespaces."{_NAMESPACE}"]\n')
    process = ServerProcess(["--data", str(tmp_path / "policies.db"), "--cluster-file", str(cluster)], tmp_path / "server.log")
    await process.start()
    yield Raw(process.address)
    process.kill()


async def test_buf_curl_can_make_every_call_of_the_service(raw: Raw) -> None:
    info = await raw.one("GetServerInfo", {})
    assert (info["log"], info["writerMode"]) == ("LOG_KIND_EMBEDDED", "WRITER_MODE_SOLE")

    first = await raw.one("UpdatePolicy", {"topic": _TOPIC, "policies": {"max_producer_per_topic": 5}, "actor": "ann", "reason": "why"})
    assert (first["outcome"], first["document"]["policies"]) == ("UPDATE_OUTCOME_APPLIED", {"maxProducerPerTopic": 5})
    with pytest.raises(Refused) as refused:
        await raw.call("UpdatePolicy", {"topic": _TOPIC, "policies": {"max_producer_per_topic": 6}, "etag": first["previousVersion"]})
    assert (refused.value.code, refused.value.reason) == ("aborted", "ETAG_MISMATCH")
    with pytest.raises(Refused) as refused:
        await raw.call("UpdatePolicy", {"topic": "nowhere", "update_mask": "nope"})
    assert sorted(refused.value.violations) == ["MALFORMED_NAME", "UNKNOWN_PATH"], "all violations are reported together"

    batch = [{"sequence": number, "update": {"topic": _TOPIC, "policies": {"max_consumer_per_topic": number}}} for number in range(1, 6)]
    batch.append({"sequence": 6, "delete": {"topic": f"{_TOPIC}-absent"}})
    answers = await raw.call("UpdatePolicies", {"changes": batch[:4]}, {"changes": batch[4:]})
    results = {int(result["sequence"]): result for answer in answers for result in answer["results"]}
    assert [results[number]["updated"]["outcome"] for number in range(1, 6)] == ["UPDATE_OUTCOME_APPLIED"] * 5
    assert results[6]["deleted"]["outcome"] == "DELETE_OUTCOME_ABSENT"

    local, global_ = (await raw.one("GetPolicy", {"topic": _TOPIC}))["documents"]
    assert local["policies"] == {"maxProducerPerTopic": 5, "maxConsumerPerTopic": 5} and "policies" not in global_
    (past,) = (await raw.one("GetPolicy", {"topic": _TOPIC, "scopes": ["SCOPE_LOCAL"], "as_of_version": first["version"]}))["documents"]
    assert past["policies"] == {"maxProducerPerTopic": 5}
    effective = await raw.one("GetEffectivePolicy", {"topic": _TOPIC})
    assert {"path": "max_producer_per_topic", "source": "POLICY_SOURCE_TOPIC_LOCAL"} in effective["sources"]

    listed = await raw.one("ListPolicies", {"namespace": _NAMESPACE})
    assert [document["topic"] for document in listed["documents"]] == [_TOPIC]
    deleted = await raw.one("DeletePolicy", {"topic": _TOPIC, "etag": local["version"], "include_previous": True})
    assert (deleted["outcome"], deleted["previous"]["policies"]) == ("DELETE_OUTCOME_DELETED", local["policies"])
    history = await raw.one("ListHistory", {"topic": _TOPIC, "order": "HISTORY_ORDER_OLDEST_FIRST"})
    assert (history["entries"][0]["origin"]["actor"], history["entries"][0]["origin"]["reason"]) == ("ann", "why")

    since = {"namespaces": [_NAMESPACE], "end_when_synced": True, "resume": {_NAMESPACE: listed["token"]}}
    events = [event for message in await raw.call("WatchPolicies", since) for event in message["events"]]
    assert [event["change"]["document"].get("policies") for event in events if "change" in event] == [None], "the deletion"
    assert events[-1]["bookmark"]["kind"] == "BOOKMARK_KIND_SYNCED"

    assert raw.called == {method.name for method in _SERVICE.methods}
