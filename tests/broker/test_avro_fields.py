"""Every policy in both directions: the codec reads what an administrator sets, and the broker shows what the codec writes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker.admin import Admin
from tests.broker.change_events import ChangeEvents
from tests.broker.policy_case import Case, Need, comparable, prepare, replicated_namespace, stop_replicating
from tests.broker.policy_cases import CASES
from tests.broker.pulsar_broker import Broker
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import FIELDS, join, setting_of, split
from topicpolicies_server.core.policies.events import Action, Event, Stamp, StampKind

_PATIENCE_S = 10
EVERY = [(f"{case.setting}-{scope.name}", case, scope) for case in CASES for scope in case.scopes]


@pytest.fixture(scope="module")
def plain(broker: Broker, admin: Admin) -> Iterator[ChangeEvents]:
    with _log(broker, admin.create_namespace("fields")) as log:
        yield log


@pytest.fixture(scope="module")
def replicated(broker: Broker, admin: Admin) -> Iterator[ChangeEvents]:
    namespace = replicated_namespace(admin)
    with _log(broker, namespace) as log:
        yield log
    stop_replicating(admin, namespace)


def _log(broker: Broker, namespace: str) -> ChangeEvents:
    return ChangeEvents(broker.service_url, namespace)


@pytest.fixture
def log(request: pytest.FixtureRequest, case: Case) -> ChangeEvents:
    """The log of a namespace of the kind that the case needs."""
    made: ChangeEvents = request.getfixturevalue("replicated" if case.need is Need.TWO_CLUSTERS else "plain")
    return made


def test_every_setting_has_a_case() -> None:
    families = {case.setting.partition("/")[0] for case in CASES}
    assert families == {setting_of(name) for name in FIELDS}
    assert len({case.setting for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.setting) for case in CASES])
def test_the_values_of_a_case_differ_in_every_leaf(case: Case) -> None:
    one, other = (split(example.policies) for example in case.examples)
    assert one.keys() == other.keys() == {case.setting}
    assert case.leaf_paths()
    values = [_by_leaf(example.policies, case) for example in case.examples]
    assert values[0].keys() == values[1].keys()
    assert [path for path in values[0] if values[0][path] == values[1][path]] == []


def _by_leaf(policies: TopicPolicies, case: Case) -> dict[str, Any]:
    found = {}
    for path in case.leaf_paths():
        value: Any = policies
        for name in path.split("."):
            value = getattr(value, name) if hasattr(value, "DESCRIPTOR") else value[name]
        found[path] = list(value) if isinstance(value, (list, tuple)) or hasattr(value, "extend") else value
    return found


@pytest.mark.parametrize(("case", "scope"), [pytest.param(case, scope, id=name) for name, case, scope in EVERY if case.settable])
def test_an_event_of_an_administrators_change_is_decoded_and_encodes_to_the_same_bytes(
    log: ChangeEvents, admin: Admin, case: Case, scope: Scope
) -> None:
    topic, case = prepare(admin, case, log.namespace, f"read-{case.setting.replace('/', '-')}-{scope.name}")
    log.read()
    for example in case.examples:
        case.setting_call(example, scope).on(admin, topic)
        (entry,) = log.read()
        event = entry.event()
        assert event == Event(PolicyKey(f"persistent://{topic}", scope), Action.UPDATE, event.document)
        assert event.document is not None
        assert comparable(join(event.document)) == comparable(example.policies)
        message = log.codec.encode(event)
        assert (message.key, message.payload) == (entry.key, entry.payload)
    if case.removable:
        case.removing_call(scope).on(admin, topic)
        (entry,) = log.read()
        assert join(entry.event().document or {}) == case.removed


@pytest.mark.parametrize(("case", "scope"), [pytest.param(case, scope, id=name) for name, case, scope in EVERY])
def test_the_broker_shows_the_document_of_an_event_that_the_codec_wrote(log: ChangeEvents, admin: Admin, case: Case, scope: Scope) -> None:
    topic, case = prepare(admin, case, log.namespace, f"written-{case.setting.replace('/', '-')}-{scope.name}")
    key = PolicyKey(f"persistent://{topic}", scope)
    assert case.read(case.reading_call(scope).on(admin, topic)) == case.unset
    for example in case.examples:
        log.write(Event(key, Action.UPDATE, split(example.policies), Stamp(event_id="an update", kind=StampKind.UPDATE, mask=case.mask)))
        _until_shown(case, scope, admin, topic, example.policies)
    log.write(Event(key, Action.DELETE, None, Stamp(event_id="a tombstone", kind=StampKind.TOMBSTONE)))
    _until_shown(case, scope, admin, topic, case.unset)


def _until_shown(case: Case, scope: Scope, admin: Admin, topic: str, expected: TopicPolicies) -> None:
    """Waits until the broker, which reads the log with a delay, shows a document."""
    deadline = time.monotonic() + _PATIENCE_S
    while (shown := comparable(case.read(case.reading_call(scope).on(admin, topic)))) != comparable(expected):
        assert time.monotonic() < deadline, f"expected {expected}, got {shown}"
        time.sleep(0.02)
