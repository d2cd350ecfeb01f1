"""Every policy of the admin API, set, read and removed in each scope: a broker with the plug-in answers like a stock broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker.admin import Admin, AdminError
from tests.promises.broker.policy_case import Call, Case, Need, Scope, comparable, prepare, replicated_namespace, stop_replicating
from tests.promises.broker.policy_cases import CASES
from tests.promises.plugin.pair import Pair
from topicpolicies.v1.policies_pb2 import TopicPolicies

pytestmark = [pytest.mark.broker]

_WHICH = [(case, scope) for case in CASES for scope in case.scopes]


@pytest.fixture(scope="module")
def namespaces(pair: Pair, admin: Admin) -> Iterator[dict[tuple[str, Need], str]]:
    """A plain and a replicated namespace, on the broker with the plug-in (``own``) and on a stock one."""
    with pair.admin as own:
        made: dict[tuple[str, Need], str] = {}
        for name, client in (("own", own), ("stock", admin)):
            plain = client.create_namespace("every")
            made |= {
                (name, Need.NOTHING): plain,
                (name, Need.SHADOW_TOPICS): plain,
                (name, Need.TWO_CLUSTERS): replicated_namespace(client),
            }
        yield made
        stop_replicating(own, made["own", Need.TWO_CLUSTERS])
        stop_replicating(admin, made["stock", Need.TWO_CLUSTERS])


@pytest.mark.parametrize(("case", "scope"), _WHICH, ids=[f"{case.setting}-{scope.name}" for case, scope in _WHICH])
def test_a_broker_with_the_plug_in_answers_like_a_stock_broker(
    pair: Pair, own: Admin, admin: Admin, namespaces: dict[tuple[str, Need], str], case: Case, scope: Scope
) -> None:
    local = f"{case.setting.replace('/', '-')}-{scope.name}-{uuid.uuid4().hex[:4]}".lower()
    answers: dict[str, list[Any]] = {}
    held: list[TopicPolicies] = []
    for name, client in (("own", own), ("stock", admin)):
        namespace = namespaces[name, case.need]
        topic, here = prepare(client, case, namespace, local)
        answers[name] = [_answer(here.reading_call(scope), client, topic)]
        for example in here.examples:
            answers[name] += [_answer(call, client, topic) for call in (here.setting_call(example, scope), here.reading_call(scope))]
            if name == "own":
                held.append(pair.api.get(topic, scope).policies or TopicPolicies())
        answers[name] += [_answer(call, client, topic) for call in (here.removing_call(scope), here.reading_call(scope))]
        answers[name] = [json.loads(json.dumps(answer).replace(namespace, "NAMESPACE")) for answer in answers[name]]
    assert answers["own"] == answers["stock"]
    if case.settable:
        examples = case.in_namespace(namespaces["own", case.need]).examples
        assert [comparable(each) for each in held] == [comparable(example.policies) for example in examples], "the sidecar has the values"


def _answer(call: Call, admin: Admin, topic: str) -> Any:
    """Returns the broker's answer, with sorted lists; a refusal as its status."""
    try:
        answer = call.on(admin, topic)
    except AdminError as error:
        return {"refused": error.status}
    return sorted(answer) if isinstance(answer, list) else answer
