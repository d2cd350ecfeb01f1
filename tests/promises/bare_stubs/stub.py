"""A client that is nothing but generated code, gRPC, and ``clients/service_config.json``: the Python twin of ``stub.go``.

    python stub.py SERVICE_CONFIG ADDRESS,... changes TOPIC
    python stub.py SERVICE_CONFIG ADDRESS,... watch NAMESPACE [RESUME_TOKEN]
    python stub.py SERVICE_CONFIG ADDRESS,... load TOPIC CLIENTS

``changes`` makes an update, its repeat and a batch. ``watch`` follows a namespace, and resumes by itself. ``load`` has clients change an
entry of their own, until the standard input ends. What happened is printed, a JSON document a line.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from topicpolicies.v1 import service_pb2 as messages
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub

SECONDS = 20
MOST_ERRORS = 10
_printing = threading.Lock()


def say(**what: Any) -> None:
    """Prints a line."""
    with _printing:
        print(json.dumps(what), flush=True)


def reason_of(status: status_pb2.Status) -> str:
    """Returns the reason of an error; "" if it is none of the service's."""
    info = error_details_pb2.ErrorInfo()
    return next((info.reason for detail in status.details if detail.Unpack(info)), "")


def result(change: messages.ChangeResult) -> dict[str, Any]:
    """Returns what is printed of the result of a change."""
    return {
        "outcome": messages.ChangeOutcome.Name(change.outcome).removeprefix("CHANGE_OUTCOME_"),
        "version": change.version,
        "previous_version": change.previous_version,
        "request_id": change.request_id,
        "replayed": change.replayed,
    }


def changes(stub: Any, topic: str) -> None:
    """Makes an update, its repeat and a batch."""
    update = messages.UpdatePolicyRequest(topic=topic, request_id=str(uuid.uuid4()))
    update.policies.max_producer_per_topic = 5
    for _ in range(2):
        say(call="UpdatePolicy", **result(stub.UpdatePolicy(update, timeout=SECONDS)))
    batch = messages.BatchUpdatePoliciesRequest()
    for number in range(1, 4):
        one = batch.changes.add().update
        one.topic, one.request_id, one.policies.max_consumer_per_topic = topic, str(uuid.uuid4()), number
    batch.changes.add().update.topic = "nowhere"
    batch.changes.add().delete.topic = f"{topic}-absent"
    for each in stub.BatchUpdatePolicies(batch, timeout=SECONDS).results:
        found = {"error": reason_of(each.error)} if each.HasField("error") else result(each.success)
        say(call="BatchUpdatePolicies", **found)


def watch(stub: Any, namespace: str, token: str) -> None:
    """Follows a namespace. A watch that ends is resumed behind the last event that can be resumed from."""
    while True:
        request = messages.WatchPoliciesRequest(namespaces=[namespace], mode=messages.WATCH_MODE_EVERY)
        if token:
            request.resume_tokens[namespace] = token
        try:
            for batch in stub.WatchPolicies(request):
                for event in batch.events:
                    token = event.resume_token or token
                    change = event.change
                    say(
                        event=event.WhichOneof("content"),
                        synced=event.bookmark.synced,
                        topic=change.document.topic,
                        previous_version=change.previous_version,
                        version=change.document.version,
                        token=event.resume_token,
                    )
        except grpc.RpcError as error:
            say(event="ended", code=error.code().name)
        time.sleep(0.1)


def attempt(stub: Any, update: messages.UpdatePolicyRequest, *, batched: bool) -> tuple[messages.ChangeResult | None, str]:
    """Makes a change, by a call of its own or by a batch; returns its result, or what it failed with."""
    try:
        if not batched:
            return stub.UpdatePolicy(update, timeout=SECONDS), ""
        batch = messages.BatchUpdatePoliciesRequest(changes=[messages.PolicyChangeRequest(update=update)])
        (result,) = stub.BatchUpdatePolicies(batch, timeout=SECONDS).results
        return (None, f"in a batch: {reason_of(result.error)}") if result.HasField("error") else (result.success, "")
    except grpc.RpcError as error:
        status = next((each.value for each in error.trailing_metadata() or () if each.key == "grpc-status-details-bin"), b"")
        return None, f"{error.code().name} {reason_of(status_pb2.Status.FromString(status))} {error.details()}"


def load(stub: Any, topic: str, name: str, ended: threading.Event) -> None:
    """Changes one entry again and again. A change that failed is repeated, with its request id."""
    value = 0
    while not ended.is_set():
        value += 1
        update = messages.UpdatePolicyRequest(topic=topic, request_id=uuid.uuid4().hex)
        update.policies.subscription_policies[name].dispatch_rate.dispatch_throttling_rate_in_msg = value
        errors: list[str] = []
        done: messages.ChangeResult | None = None
        while done is None and len(errors) < MOST_ERRORS:
            done, failure = attempt(stub, update, batched=value % 3 == 0)
            errors += [failure] if failure else []
        say(call="load", name=name, value=value, errors=errors, **(result(done) if done is not None else {}))
        time.sleep(0.05)


def main(service_config: str, addresses: str, command: str, *arguments: str) -> None:
    """Connects, and runs a command."""
    options = [("grpc.service_config", Path(service_config).read_text()), ("grpc.max_reconnect_backoff_ms", 1000)]
    with grpc.insecure_channel(f"ipv4:{addresses}", options=options) as channel:
        stub = TopicPoliciesServiceStub(channel)
        if command == "changes":
            changes(stub, *arguments)
        elif command == "watch":
            watch(stub, *arguments, *[""] * (2 - len(arguments)))
        else:
            topic, clients = arguments
            ended = threading.Event()
            threads = [threading.Thread(target=load, args=(stub, topic, f"python-{each}", ended)) for each in range(int(clients))]
            for each in threads:
                each.start()
            sys.stdin.read()
            ended.set()
            for each in threads:
                each.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
