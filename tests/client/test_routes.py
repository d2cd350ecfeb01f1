"""Which address calls are sent to: the client's addresses in turn, or the leader of a namespace."""

from __future__ import annotations

import pytest

from tests.client.statuses import Code, Refusal
from topicpolicies.addresses import addresses_of
from topicpolicies.errors import TopicPoliciesError
from topicpolicies.routes import MOST_LEADERS, Routes

BROKEN = Refusal(Code.UNAVAILABLE, "Socket closed").error


def led_by(leader: str) -> TopicPoliciesError:
    return Refusal(Code.UNAVAILABLE, "elsewhere", "NOT_LEADER", {"leader": leader}).error


@pytest.mark.parametrize(
    ("target", "addresses"),
    [
        ("localhost:6680", ("localhost:6680",)),
        ("one:1, two:2,three:3", ("one:1", "two:2", "three:3")),
        ("ipv4:127.0.0.1:1,127.0.0.1:2", ("ipv4:127.0.0.1:1,127.0.0.1:2",)),
        ("dns:///sidecars:6680", ("dns:///sidecars:6680",)),
        ("unix:/run/a,b", ("unix:/run/a,b",)),
    ],
)
def test_a_target_is_split_into_addresses_at_commas(target: str, addresses: tuple[str, ...]) -> None:
    assert addresses_of(target) == addresses


def test_the_next_address_is_used_only_after_the_one_in_use_has_failed() -> None:
    routes = Routes(("one", "two"))
    assert [routes.to("a/b"), routes.to("a/b")] == ["one", "one"]
    assert not routes.failed("one", "a/b", BROKEN)
    assert routes.to("a/b") == "two"
    routes.failed("one", "a/b", BROKEN)  # an earlier call to an address that is no longer in use
    assert routes.to("a/b") == "two"
    routes.failed("two", "a/b", Refusal(Code.INVALID_ARGUMENT, reason="WRONG").error)
    assert routes.to("a/b") == "two"
    routes.failed("two", "a/b", BROKEN)
    assert routes.to("a/b") == "one"


@pytest.mark.parametrize("reason", ["TOO_MANY_WATCHES", "TOO_MANY_NAMESPACES"])
def test_after_too_many_watches_or_namespaces_the_next_address_is_used(reason: str) -> None:
    routes = Routes(("one", "two"))
    assert not routes.failed("one", "", Refusal(Code.RESOURCE_EXHAUSTED, reason=reason).error)
    assert routes.address == "two"
    routes.failed("two", "", Refusal(Code.RESOURCE_EXHAUSTED, reason="TOO_MANY_UPDATES").error)
    assert routes.address == "two"


def test_calls_of_a_namespace_go_to_its_leader_until_that_fails() -> None:
    routes = Routes(("one", "two"))
    assert routes.failed("one", "a/b", led_by("three"))
    assert (routes.to("a/b"), routes.to("a/c"), routes.address) == ("three", "one", "one")
    assert not routes.failed("three", "a/b", BROKEN)
    assert routes.to("a/b") == "one"


def test_a_sidecar_that_names_itself_as_the_leader_is_not_called_again_at_once() -> None:
    assert not Routes(("one",)).failed("one", "a/b", led_by("one"))


def test_a_client_that_does_not_follow_leaders_uses_only_its_own_address() -> None:
    routes = Routes(("one",), follows_leaders=False)
    assert not routes.failed("one", "a/b", led_by("two"))
    assert routes.to("a/b") == "one"


def test_the_number_of_remembered_leaders_is_bounded() -> None:
    routes = Routes(("one",))
    for number in range(MOST_LEADERS + 1):
        routes.failed("one", f"a/{number}", led_by("two"))
    assert (routes.to("a/0"), routes.to(f"a/{MOST_LEADERS}")) == ("one", "two")
