"""Errors of arguments name the argument; and how the values of the package are shown in an interactive session."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import topicpolicies as tp
from tests.client.certificates import Authority
from tests.client.fault_service import FaultService
from topicpolicies.v1.events_pb2 import PulsarEvent

TOPIC = "persistent://public/default/orders"
NAMESPACE = "public/default"
SCOPES = "Scope.LOCAL, Scope.GLOBAL"

ABSENT = tp.Document(TOPIC, tp.Scope.LOCAL, None, "0")


def bump(policies: tp.TopicPolicies) -> None:
    policies.max_producer_per_topic += 1


WRONG: dict[str, Callable[[Any], Any]] = {
    "topic must be a text, not 5.": lambda client: client.get(5),
    "topic must be a text, not None.": lambda client: client.update(None, max_producer_per_topic=5),
    f"scope must be one of {SCOPES}, not 'GLOBAL'.": lambda client: client.get(TOPIC, scope="GLOBAL"),
    f"scope must be one of {SCOPES}, not 2.": lambda client: client.delete(TOPIC, scope=2),
    f"scopes must be one of {SCOPES}, not 'GLOBAL'.": lambda client: client.list(NAMESPACE, scopes=["GLOBAL"]),
    "scopes takes a list, such as ['GLOBAL'], not 'GLOBAL' alone.": lambda client: client.list(NAMESPACE, scopes="GLOBAL"),
    "namespaces takes a list, such as ['public/default'], not 'public/default' alone.": lambda client: client.watch(namespaces=NAMESPACE),
    f"topics takes a list, such as ['{TOPIC}'], not '{TOPIC}' alone.": lambda client: client.cache(topics=TOPIC),
    "namespaces takes a list, such as [None], not None alone.": lambda client: client.watch(namespaces=None),
    "mode must be one of WatchMode.LATEST, WatchMode.EVERY, WatchMode.ENTRIES, not 'EVERY'.": lambda client: client.watch(
        namespaces=[NAMESPACE], mode="EVERY"
    ),
    "mask takes a list, such as [5], not 5 alone.": lambda client: client.update(TOPIC, mask=5),
    "as_of_time must be a datetime, not '2026-03-01'.": lambda client: client.get(TOPIC, as_of_time="2026-03-01"),
    "list_operations must be one of ListOperation.REPLACE, ListOperation.UNION, ListOperation.SUBTRACT, not 'union'.": lambda client: (
        client.update(TOPIC, shadow_topics=["a"], list_operations={"shadow_topics": "union"})
    ),
    "namespace must be a text, not ['public/default'].": lambda client: client.list([NAMESPACE]),
    "policies must be a Mapping, not ['max_producer_per_topic'].": lambda client: client.update(TOPIC, ["max_producer_per_topic"]),
    "list_operations must be a Mapping, not 'UNION'.": lambda client: client.update(TOPIC, shadow_topics=["a"], list_operations="UNION"),
    "mask must be a text, not 5.": lambda client: client.update(TOPIC, mask=[5]),
    "etag must be a text, not 5.": lambda client: client.delete(TOPIC, etag=5),
    f"request_id must be a text, not {uuid.UUID(int=5)!r}.": lambda client: client.update(
        TOPIC, max_producer_per_topic=1, request_id=uuid.UUID(int=5)
    ),
    "reason must be a text, not 7.": lambda client: client.edit(TOPIC, bump, reason=7, start=ABSENT),
    "start must be a Document, not 'x'.": lambda client: client.edit(TOPIC, bump, start="x"),
    "at_least_version must be a text, not 5.": lambda client: client.get(TOPIC, at_least_version=5),
    "topics must be a text, not 5.": lambda client: client.watch(topics=[5]),
    "token must be a ResumeToken, not '{}'.": lambda client: client.watch(namespaces=[NAMESPACE], token="{}"),
    "bookmark_interval must be a number of seconds, not '5'.": lambda client: client.cache(namespaces=[NAMESPACE], bookmark_interval="5"),
    "page_size must be a whole number, not '5'.": lambda client: client.list(NAMESPACE, page_size="5"),
    "start must be a datetime, not '1d-ago'.": lambda client: next(client.history(topic=TOPIC, start="1d-ago")),
}


@pytest.fixture
def unconnected() -> Iterator[tp.Client]:
    with tp.Client("127.0.0.1:1", timeout=0.05) as client:
        yield client


@pytest.mark.parametrize("message", WRONG)
def test_an_argument_of_a_wrong_type_is_named_in_the_error(unconnected: tp.Client, message: str) -> None:
    with pytest.raises(tp.InvalidArgument) as caught:
        WRONG[message](unconnected)
    assert (str(caught.value), caught.value.reason) == (message, "WRONG_VALUE" if "number of seconds" in message else "WRONG_TYPE")
    assert [violation.field for violation in caught.value.violations] == [message.split(maxsplit=1)[0]]


@pytest.mark.parametrize("make", [tp.Client, tp.AsyncClient])
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("http://localhost:6680", 'The target must be an address, host:port, not a URL: "http://localhost:6680".'),
        ("https://localhost:6680", 'The target must be an address, host:port, not a URL: "https://localhost:6680".'),
        (6680, "target must be a text, not 6680."),
        (None, "target must be a text, not None."),
    ],
)
def test_a_target_that_is_not_an_address_is_refused_by_the_constructor(make: Callable[[Any], object], target: object, message: str) -> None:
    with pytest.raises(tp.InvalidArgument) as caught:
        make(target)
    assert str(caught.value) == message


@pytest.mark.parametrize("make", [tp.Client, tp.AsyncClient])
@pytest.mark.parametrize("retries", [5, 0, True])
def test_retries_that_are_no_policy_are_refused(make: Callable[..., object], retries: object) -> None:
    with pytest.raises(tp.InvalidArgument, match=f"retries must be a RetryPolicy, not {retries}"):
        make("localhost:1", retries=retries)


def test_a_cache_refuses_a_scope_that_is_none(unconnected: tp.Client) -> None:
    with unconnected.cache(namespaces=[NAMESPACE]) as cache, pytest.raises(tp.InvalidArgument, match="scope must be one of"):
        cache.get(TOPIC, "LOCAL")  # type: ignore[arg-type]


def test_files_of_tls_can_be_given_as_strings(tmp_path: Path) -> None:
    own = Authority(tmp_path, "ours").identity("known")
    authority = str(Authority(tmp_path, "theirs").certificate)
    assert tp.Tls(ca_file=authority, certificate_file=str(own.certificate), key_file=str(own.key)).credentials() is not None


async def test_an_edit_function_that_returns_other_policies_is_refused(address: str, service: FaultService) -> None:
    def other(_: tp.TopicPolicies) -> tp.TopicPolicies:
        return tp.TopicPolicies(max_producer_per_topic=3)

    async def later(_: tp.TopicPolicies) -> tp.TopicPolicies:
        return tp.TopicPolicies(max_producer_per_topic=3)

    def same(policies: tp.TopicPolicies) -> tp.TopicPolicies:
        policies.max_producer_per_topic = 4
        return policies

    async with tp.AsyncClient(address) as client:
        with tp.Client(address) as blocking:
            for edit in (client.edit(TOPIC, other), client.edit(TOPIC, later), asyncio.to_thread(blocking.edit, TOPIC, other)):
                with pytest.raises(tp.InvalidArgument, match="the policies that it returned are not sent"):
                    await edit
            assert TOPIC not in service.documents
            await client.edit(TOPIC, same)
    assert service.documents[TOPIC][0].max_producer_per_topic == 4


async def test_an_edit_function_that_is_a_coroutine_function_is_refused_by_the_synchronous_client(
    address: str, service: FaultService
) -> None:
    async def later(policies: tp.TopicPolicies) -> None:
        policies.max_producer_per_topic = 4

    with tp.Client(address) as client, pytest.raises(tp.InvalidArgument, match="does not await the function of an edit"):
        await asyncio.to_thread(client.edit, TOPIC, later)
    assert TOPIC not in service.documents


def test_values_and_clients_have_short_readable_reprs(unconnected: tp.Client) -> None:
    policies = tp.TopicPolicies(max_producer_per_topic=5, shadow_topics=["a"])
    document = tp.Document(TOPIC, tp.Scope.LOCAL, policies, "7")
    shown = '<TopicPolicies max_producer_per_topic: 5 shadow_topics: "a">'
    expected = f"Document(topic='{TOPIC}', scope=<Scope.LOCAL: 1>, policies={shown}, version='7', disabled=False)"
    assert repr(document) == expected
    assert f"document={expected}, " in repr(tp.UpdateResult(document, "7", "6", None, tp.UpdateOutcome.APPLIED, "0"))
    effective = tp.EffectivePolicies(TOPIC, policies, {"shadow_topics": tp.PolicySource.BROKER}, "7", "0")
    assert f"policies={shown}, sources={{'shadow_topics': <PolicySource.BROKER: 4>}}, " in repr(effective)
    event = PulsarEvent(replicate_to=["us"])
    origin = tp.Origin("me", tp.ActorStanding.UNAUTHENTICATED, "", "", None, "", None, event)
    assert ', event=<PulsarEvent replicate_to: "us">, ' in repr(origin) and len(repr(origin).splitlines()) == 1
    assert repr(tp.Update(TOPIC, policies, mask="*")) == f"Update('{TOPIC}', {shown}, mask='*')"
    assert repr(tp.Update(TOPIC, max_producer_per_topic=5)) == f"Update('{TOPIC}', max_producer_per_topic=5)"
    assert repr(tp.Deletion(TOPIC, scope=tp.Scope.GLOBAL)) == f"Deletion('{TOPIC}', scope=<Scope.GLOBAL: 2>)"
    assert repr(unconnected.list(NAMESPACE)) == "<Listing of public/default>"
    with unconnected.watch(topics=[TOPIC]) as watch:
        assert repr(watch) == "<Watch of public/default>"
    assert repr(watch) == "<Watch of public/default, closed>"
    with unconnected.cache(namespaces=[NAMESPACE, "public/other"]) as cache:
        assert repr(cache) == "<PolicyCache of public/default, public/other, not synced>"
    assert repr(cache) == "<PolicyCache of public/default, public/other, closed>"
    assert repr(unconnected) == "<Client of 127.0.0.1:1>"
    unconnected.close()
    assert repr(unconnected) == "<Client of 127.0.0.1:1, closed>"
    assert repr(tp.AsyncClient("localhost:6680")) == "<AsyncClient of localhost:6680>"
