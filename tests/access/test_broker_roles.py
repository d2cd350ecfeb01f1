"""Permissions as brokers decide: requested, cached, refreshed and bounded, and refused where they are not known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from topicpolicies_server.access import Permission
from topicpolicies_server.access.broker_roles import BrokerRoles
from topicpolicies_server.access.grants import known
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin import Admin

SPACE = "acme/orders"
READ, WATCH, CHANGE, HISTORY, _, SECRETS = Permission


class Brokers:
    """A fake of the brokers' admin API, with answers by path. It records the requests."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, ...], Any] = {
            ("brokers", "configuration", "runtime"): {"superUserRoles": "[admin, root]"},
            ("tenants", "acme"): {"adminRoles": ["owner", "keeper"], "allowedClusters": ["us"]},
            ("namespaces", "acme", "orders", "permissions"): {"producer": ["produce"], "consumer": ["consume"], "former": []},
        }
        self.asked: list[tuple[str, ...]] = []
        self.at_once = self.most_at_once = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def get(self, *path: str, seconds: float) -> Any:
        """Returns the answer for a path; None: not found."""
        assert seconds > 0
        self.asked.append(path)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.may_answer.wait()
        finally:
            self.at_once -= 1
        answer = self.answers.get(path)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Clock:
    """A clock in monotonic seconds, which tests set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def brokers() -> Brokers:
    """The fake of the admin API."""
    return Brokers()


@pytest.fixture
def clock() -> Clock:
    """The clock of the cache."""
    return Clock()


@pytest.fixture
async def roles(brokers: Brokers, clock: Clock) -> AsyncIterator[BrokerRoles]:
    """The permissions that are under test; answers are fresh for 30 s."""
    made = BrokerRoles(cast("Admin", brokers), clock)
    yield made
    await made.close()


async def permissions(roles: BrokerRoles, role: str, namespace: str = SPACE) -> set[Permission]:
    """Returns the permissions of a role."""
    return set(await known(roles.granted(role, namespace)))


async def may(roles: BrokerRoles, role: str, namespace: str, permission: Permission) -> bool:
    """Returns whether a role has a permission."""
    return permission in await known(roles.granted(role, namespace))


@pytest.mark.parametrize(
    ("role", "namespace", "expected"),
    [
        ("admin", SPACE, set(Permission)),
        ("root", "far/away", set(Permission)),
        ("owner", SPACE, {READ, WATCH, CHANGE, HISTORY}),
        ("owner", "acme/other", {READ, WATCH, CHANGE, HISTORY}),
        ("owner", "other/orders", set()),
        ("producer", SPACE, set()),
        ("consumer", SPACE, set()),
        ("nobody", SPACE, set()),
        ("", SPACE, set()),
    ],
)
async def test_a_role_has_the_permissions_that_the_brokers_admin_api_would_grant(
    roles: BrokerRoles, role: str, namespace: str, expected: set[Permission]
) -> None:
    assert await permissions(roles, role, namespace) == expected
    assert roles.granted(role, namespace) == frozenset(expected), "it is known at once by now"


async def test_configured_superusers_may_do_everything_without_a_request_to_brokers(brokers: Brokers, clock: Clock) -> None:
    roles = BrokerRoles(cast("Admin", brokers), clock, superusers=frozenset({"me", ""}))
    assert await permissions(roles, "me") == set(Permission)
    assert not brokers.asked
    assert await permissions(roles, "admin") == set(Permission), "superusers of the brokers may do everything too"
    assert not await permissions(roles, "")
    await roles.close()


async def test_only_configured_superusers_count_if_brokers_refuse_to_show_theirs(brokers: Brokers, clock: Clock) -> None:
    brokers.answers["brokers", "configuration", "runtime"] = LogError(LogState.ADMIN_REFUSED, "No.")
    roles = BrokerRoles(cast("Admin", brokers), clock, superusers=frozenset({"me"}))
    assert await permissions(roles, "me") == set(Permission)
    assert await permissions(roles, "admin") == set()
    assert await permissions(roles, "owner") == {READ, WATCH, CHANGE, HISTORY}
    await roles.close()


async def test_answers_are_requested_again_only_after_half_their_time(roles: BrokerRoles, brokers: Brokers, clock: Clock) -> None:
    for _ in range(100):
        await permissions(roles, "owner")
        await permissions(roles, "nobody")
    assert sorted(brokers.asked) == [("brokers", "configuration", "runtime"), ("tenants", "acme")]
    clock.now = 16.0
    brokers.answers["tenants", "acme"] = {"adminRoles": []}
    assert READ in await known(roles.granted("owner", SPACE)), "the cached answer is used while it is refreshed"
    await asyncio.sleep(0.05)
    assert roles.granted("owner", SPACE) == frozenset(), "the new answer is known before the old one would have expired"
    assert brokers.asked.count(("tenants", "acme")) == 2


async def test_an_expired_answer_is_not_used_if_brokers_do_not_answer(roles: BrokerRoles, brokers: Brokers, clock: Clock) -> None:
    assert await may(roles, "owner", SPACE, CHANGE)
    clock.now = 31.0
    brokers.answers["tenants", "acme"] = LogError(LogState.ADMIN_UNREACHABLE, "It is away.")
    with pytest.raises(PolicyError, match=r"It is not known what roles may do in acme/orders: It is away\.") as caught:
        await may(roles, "owner", SPACE, CHANGE)
    assert (caught.value.kind.value, caught.value.reason) == ("UNAVAILABLE", "AUTHORIZATION_UNKNOWN")
    assert await may(roles, "admin", SPACE, CHANGE), "superusers do not depend on the tenant"


@pytest.mark.parametrize("answer", [LogError(LogState.ADMIN_REFUSED, "No."), [], "page", {"adminRoles": "owner"}, {"adminRoles": [7]}])
async def test_an_answer_in_an_unknown_form_grants_nothing(roles: BrokerRoles, brokers: Brokers, answer: Any) -> None:
    brokers.answers["tenants", "acme"] = answer
    if answer == []:
        assert not await may(roles, "owner", SPACE, READ)
        return
    with pytest.raises(PolicyError) as caught:
        await may(roles, "owner", SPACE, READ)
    assert caught.value.reason == "AUTHORIZATION_UNKNOWN"


@pytest.mark.parametrize("configuration", [None, {}, {"superUserRoles": ""}, {"superUserRoles": "[]"}, {"superUserRoles": None}])
async def test_brokers_without_superusers_have_none(roles: BrokerRoles, brokers: Brokers, configuration: Any) -> None:
    brokers.answers["brokers", "configuration", "runtime"] = configuration
    assert not await permissions(roles, "")
    assert not await permissions(roles, "[]")
    assert not await permissions(roles, "admin")


async def test_a_tenant_that_does_not_exist_has_no_admins(roles: BrokerRoles) -> None:
    assert not await may(roles, "owner", "nowhere/space", READ)


async def test_the_number_of_kept_answers_is_bounded(roles: BrokerRoles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles._roles, "_most", 100)
    for number in range(150):
        await may(roles, "nobody", f"t{number}/space", READ)
    assert len(roles._roles._answers) == 100


async def test_concurrent_lookups_of_one_tenant_share_a_request(roles: BrokerRoles, brokers: Brokers) -> None:
    assert all(await asyncio.gather(*(may(roles, "owner", f"acme/n{number}", CHANGE) for number in range(100))))
    assert brokers.asked.count(("tenants", "acme")) == 1
