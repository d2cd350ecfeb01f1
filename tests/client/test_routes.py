"""Where calls go: to the addresses in turn, or to the sidecar that writes a namespace."""

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
def test_addresses_are_separated_by_commas(target: str, addresses: tuple[str, ...]) -> None:
    assert addresses_of(target) == addresses


def test_addresses_take_turns_when_they_fail_and_only_then() -> None:
    routes = Routes(("one", "two"))
    assert [routes.to("a/b"), routes.to("a/b")] == ["one", "one"]
    assert not routes.failed("one", "a/b", BROKEN)
    assert routes.to("a/b") == "two"
    routes.failed("one", "a/b", BROKEN)  # an older call to one that is not in use any more
    assert routes.to("a/b") == "two"
    routes.failed("two", "a/b", Refusal(Code.INVALID_ARGUMENT, reason="WRONG").error)
    assert routes.to("a/b") == "two"
    routes.failed("two", "a/b", BROKEN)
    assert routes.to("a/b") == "one"


@pytest.mark.parametrize("reason", ["TOO_MANY_WATCHES", "TOO_MANY_NAMESPACES"])
def test_a_sidecar_without_room_is_left_for_the_next(reason: str) -> None:
    routes = Routes(("one", "two"))
    assert not routes.failed("one", "", Refusal(Code.RESOURCE_EXHAUSTED, reason=reason).error)
    assert routes.address == "two"
    routes.failed("two", "", Refusal(Code.RESOURCE_EXHAUSTED, reason="TOO_MANY_UPDATES").error)
    assert routes.address == "two"


def test_a_namespace_goes_to_its_leader_until_that_fails() -> None:
    routes = Routes(("one", "two"))
    assert routes.failed("one", "a/b", led_by("three"))
    assert (routes.to("a/b"), routes.to("a/c"), routes.address) == ("three", "one", "one")
    assert not routes.failed("three", "a/b", BROKEN)
    assert routes.to("a/b") == "one"


def test_one_that_names_itself_is_waited_for() -> None:
    assert not Routes(("one",)).failed("one", "a/b", led_by("one"))


def test_a_client_with_a_connection_of_its_own_goes_nowhere_else() -> None:
    routes = Routes(("one",), follows_leaders=False)
    assert not routes.failed("one", "a/b", led_by("two"))
    assert routes.to("a/b") == "one"


def test_so_many_leaders_are_remembered() -> None:
    routes = Routes(("one",))
    for number in range(MOST_LEADERS + 1):
        routes.failed("one", f"a/{number}", led_by("two"))
    assert (routes.to("a/0"), routes.to(f"a/{MOST_LEADERS}")) == ("one", "two")
