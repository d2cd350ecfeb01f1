"""A tool of another project that knows only the server's reflection makes every call: ``buf curl``."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from google.rpc import error_details_pb2

from tests.promises.server_process import ServerProcess
from topicpolicies.v1 import history_pb2, service_pb2

pytestmark = pytest.mark.slow
_CURL = (str(Path(sys.executable).with_name("buf")), "curl", "--protocol", "grpc", "--http2-prior-knowledge", "--data", "@-")
_SERVICES = (
    service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"],
    history_pb2.DESCRIPTOR.services_by_name["PolicyHistoryService"],
)
_NO_CALL = 1
"""The code with which buf exits if it made no call."""
_NAMESPACE = "raw/calls"
_TOPIC = f"persistent://{_NAMESPACE}/orders"


class Refused(Exception):
    """Raised for a call that failed."""

    def __init__(self, error: dict[str, Any]) -> None:
        """``error``: the error as buf prints it."""
        super().__init__(error)
        self.code = error["code"]
        details = {detail["type"]: base64.b64decode(detail["value"] + "==") for detail in error["details"]}
        self.reason = error_details_pb2.ErrorInfo.FromString(details["google.rpc.ErrorInfo"]).reason
        violations = error_details_pb2.BadRequest.FromString(details.get("google.rpc.BadRequest", b"")).field_violations
        self.violations = [each.reason for each in violations]


class Raw:
    """Calls a server with buf."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.called: set[str] = set()

    async def call(self, method: str, message: dict[str, Any]) -> dict[str, Any]:
        """Makes a call and returns its response.

        Raises:
            Refused: the call failed.
        """
        command, request = self._command(method), json.dumps(message)
        done = await asyncio.to_thread(subprocess.run, command, input=request, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            assert done.returncode > _NO_CALL, done.stderr
            raise Refused(json.loads(done.stderr))
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    async def events(self, method: str, message: dict[str, Any]) -> list[dict[str, Any]]:
        """Watches until the watch has synced, and returns the events up to then."""
        process = await asyncio.create_subprocess_exec(
            *self._command(method), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(message).encode())
        process.stdin.close()
        text, events = "", list[dict[str, Any]]()
        try:
            async with asyncio.timeout(60):
                while not any(event.get("bookmark", {}).get("synced") for event in events):
                    more = await process.stdout.read(65536)
                    assert more, "the watch has ended"
                    text += more.decode()
                    events = [event for batch in _documents(text) for event in batch["events"]]
        finally:
            process.kill()
            await process.wait()
        return events

    def _command(self, method: str) -> list[str]:
        self.called.add(method)
        service = next(each for each in _SERVICES if method in each.methods_by_name)
        return [*_CURL, f"http://{self._address}/{service.full_name}/{method}"]


def _documents(text: str) -> list[dict[str, Any]]:
    """Parses concatenated JSON documents, the last of which may be incomplete."""
    decoder, found, text = json.JSONDecoder(), [], text.lstrip()
    with contextlib.suppress(json.JSONDecodeError):
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


async def test_a_tool_that_knows_the_servers_reflection_makes_every_call(raw: Raw) -> None:
    info = await raw.call("GetServerInfo", {})
    assert (info["log"], info["writerMode"]) == ("LOG_KIND_EMBEDDED", "WRITER_MODE_SOLE")

    first = await raw.call("UpdatePolicy", {"topic": _TOPIC, "policies": {"max_producer_per_topic": 5}, "actor": "ann", "reason": "why"})
    assert (first["outcome"], first["document"]["policies"]) == ("CHANGE_OUTCOME_APPLIED", {"maxProducerPerTopic": 5})
    with pytest.raises(Refused) as refused:
        late = {"precondition": {"version": first["previousVersion"]}}
        await raw.call("UpdatePolicy", {"topic": _TOPIC, "policies": {"max_producer_per_topic": 6}, **late})
    assert (refused.value.code, refused.value.reason) == ("aborted", "PRECONDITION_FAILED")
    with pytest.raises(Refused) as refused:
        await raw.call("UpdatePolicy", {"topic": "nowhere", "update_mask": "nope"})
    assert refused.value.reason == "INVALID_REQUEST"
    assert sorted(refused.value.violations) == ["MALFORMED_NAME", "UNKNOWN_PATH"], "all violations are reported together"

    batch: list[dict[str, Any]] = [
        {"update": {"topic": _TOPIC, "policies": {"max_consumer_per_topic": number}, "request_id": uuid.uuid4().hex}} for number in range(5)
    ]
    batch += [{"delete": {"topic": f"{_TOPIC}-absent"}}, {"delete": {"topic": "nowhere"}}]
    *results, absent, nowhere = (await raw.call("BatchUpdatePolicies", {"changes": batch}))["results"]
    assert [each["success"]["outcome"] for each in results] == ["CHANGE_OUTCOME_APPLIED"] * 5
    assert absent["success"]["outcome"] == "CHANGE_OUTCOME_UNCHANGED"
    assert nowhere["error"]["code"] == 3
    again = (await raw.call("BatchUpdatePolicies", {"changes": batch[:5]}))["results"]
    assert [each["success"]["version"] for each in again] == [each["success"]["version"] for each in results]
    assert all(each["success"]["replayed"] for each in again)

    local = await raw.call("GetPolicy", {"topic": _TOPIC})
    assert local["policies"] == {"maxProducerPerTopic": 5, "maxConsumerPerTopic": 4}
    assert "policies" not in await raw.call("GetPolicy", {"topic": _TOPIC, "scope": "SCOPE_GLOBAL"})
    past = await raw.call("GetPolicyAsOf", {"topic": _TOPIC, "version": first["version"]})
    assert past["policies"] == {"maxProducerPerTopic": 5}
    effective = await raw.call("GetEffectivePolicy", {"topic": _TOPIC})
    assert {"path": "max_producer_per_topic", "source": "POLICY_SOURCE_TOPIC_LOCAL"} in effective["sources"]

    listed = await raw.call("ListPolicies", {"namespace": _NAMESPACE})
    assert [document["topic"] for document in listed["documents"]] == [_TOPIC]
    condition = {"precondition": {"version": local["version"]}, "include_previous": True}
    deleted = await raw.call("DeletePolicy", {"topic": _TOPIC, **condition})
    assert (deleted["outcome"], deleted["previous"]["policies"]) == ("CHANGE_OUTCOME_APPLIED", local["policies"])
    history = await raw.call("ListHistory", {"topic": _TOPIC, "oldest_first": True})
    assert (history["entries"][0]["origin"]["actor"], history["entries"][0]["origin"]["reason"]) == ("ann", "why")

    since = {"namespaces": [_NAMESPACE], "resume_tokens": {_NAMESPACE: listed["resumeToken"]}}
    events = await raw.events("WatchPolicies", since)
    assert [event["change"]["document"].get("policies") for event in events if "change" in event] == [None], "the deletion"
    copied = [event for event in await raw.events("WatchHistory", {"namespaces": [_NAMESPACE]}) if "entry" in event]
    assert [event["entry"]["document"]["version"] for event in copied] == [each["document"]["version"] for each in history["entries"]]
    positions = {_NAMESPACE: copied[-2]["position"]}
    rest = [event for event in await raw.events("WatchHistory", {"namespaces": [_NAMESPACE], "positions": positions}) if "entry" in event]
    assert rest == copied[-1:]

    assert raw.called == {method.name for service in _SERVICES for method in service.methods}
