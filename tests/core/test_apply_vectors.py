"""The core gives the results of the examples of updates that all clients run against a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import ListOperation
from topicpolicies_server.core.changes.change import compile_change
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.policies.documents import Document, join, split

EXAMPLES = json.loads((Path(__file__).parents[2] / "clients" / "vectors" / "apply.json").read_text())


def policies(form: dict[str, Any] | None) -> TopicPolicies | None:
    return None if form is None else ParseDict(form, TopicPolicies())


def updated(before: Document | None, example: dict[str, Any]) -> tuple[Document | None, set[str]]:
    """Returns the document after an update, and the reasons of its violations."""
    operations = {path: ListOperation.Value(name) for path, name in example.get("listOperations", {}).items()}
    try:
        change = compile_change(policies(example["policies"]), example.get("mask", []), operations)
    except PolicyError as error:
        return before, {violation.reason for violation in error.violations}
    after, _, _, violations = change.applied(before)
    return (None if before is None and not after else after), {violation.reason for violation in violations}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["name"])
def test_an_update_has_the_result_of_its_example(example: dict[str, Any]) -> None:
    document = policies(example["document"])
    after, reasons = updated(None if document is None else split(document), example)
    if "reason" in example:
        assert reasons == {example["reason"]}
    else:
        assert (None if after is None else join(after), reasons) == (policies(example["after"]), set())
