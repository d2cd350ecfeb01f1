"""Who may do what as brokers say: asked, remembered, refreshed, bounded, and refused where it can't be known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from topicpolicies_server.access import Permission, broker_roles
from topicpolicies_server.access.broker_roles import BrokerRoles
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin import Admin

SPACE = "acme/orders"
READ, WATCH, CHANGE, HISTORY, SECRETS = Permission


class Brokers:
    """The admin API: what it answers, by path. It counts what it is asked."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, ...], Any] = {
            ("brokers", "configuration", "runtime"): {"superUserRoles": "[admin, root]"},
            ("tenants", "acme"): {"adminRoles": ["owner", "keeper"], "allowedClusters": ["us"]},
            ("namespaces", "acme", "orders", "permissions"): {"producer": ["produce"], "consumer": ["consume"], "former": []},
        }
        self.asked: list[tuple[str, ...]] = []
        self.at_once = self.most_at_once = 0
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.closed = False

    async def get(self, *path: str, seconds: float) -> Any:
        """What it answers; None: not found."""
        assert seconds > 0
        self.asked.append(path)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.goes_on.wait()
        finally:
            self.at_once -= 1
        answer = self.answers.get(path)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        """Closed."""
        self.closed = True


class Clock:
    """Monotonic seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def brokers() -> Brokers:
    """What is asked."""
    return Brokers()


@pytest.fixture
def clock() -> Clock:
    """The time."""
    return Clock()


@pytest.fixture
async def roles(brokers: Brokers, clock: Clock) -> AsyncIterator[BrokerRoles]:
    """What asks them; answers hold for 30 s."""
    made = BrokerRoles(cast("Admin", brokers), clock)
    yield made
    await made.close()
    assert brokers.closed


async def permissions(roles: BrokerRoles, role: str, namespace: str = SPACE) -> set[Permission]:
    """What a role may do."""
    return {permission for permission in Permission if await roles.may(role, namespace, permission)}


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
async def test_a_role_may_what_brokers_admin_api_lets_it(roles: BrokerRoles, role: str, namespace: str, expected: set[Permission]) -> None:
    assert await permissions(roles, role, namespace) == expected
    assert {permission for permission in Permission if roles.at_once(role, namespace, permission)} == expected


@pytest.mark.parametrize(
    ("role", "expected"),
    [("producer", {READ, WATCH}), ("consumer", {READ, WATCH}), ("former", set()), ("owner", {READ, WATCH, CHANGE, HISTORY})],
)
async def test_roles_of_a_namespace_may_read_it_if_that_was_said(
    brokers: Brokers, clock: Clock, role: str, expected: set[Permission]
) -> None:
    roles = BrokerRoles(cast("Admin", brokers), clock, namespace_roles=True)
    assert await permissions(roles, role) == expected
    assert await permissions(roles, role, "acme/other") == (expected if role == "owner" else set())
    await roles.close()


async def test_superusers_that_were_named_may_everything_without_a_question(brokers: Brokers, clock: Clock) -> None:
    roles = BrokerRoles(cast("Admin", brokers), clock, superusers=frozenset({"me", ""}))
    assert await permissions(roles, "me") == set(Permission)
    assert not brokers.asked
    assert await permissions(roles, "admin") == set(Permission), "those that brokers name may too"
    assert not await permissions(roles, "")
    await roles.close()


async def test_brokers_that_do_not_tell_their_superusers_to_this_server_have_none_but_the_named(brokers: Brokers, clock: Clock) -> None:
    brokers.answers["brokers", "configuration", "runtime"] = LogError(Reason.PULSAR_ADMIN_REFUSED, "No.")
    roles = BrokerRoles(cast("Admin", brokers), clock, superusers=frozenset({"me"}))
    assert await permissions(roles, "me") == set(Permission)
    assert await permissions(roles, "admin") == set()
    assert await permissions(roles, "owner") == {READ, WATCH, CHANGE, HISTORY}
    await roles.close()


async def test_what_is_known_is_not_asked_for_again_until_half_its_time_is_over(roles: BrokerRoles, brokers: Brokers, clock: Clock) -> None:
    for _ in range(100):
        await permissions(roles, "owner")
        await permissions(roles, "nobody")
    assert sorted(brokers.asked) == [("brokers", "configuration", "runtime"), ("tenants", "acme")]
    clock.now = 16.0
    brokers.answers["tenants", "acme"] = {"adminRoles": []}
    assert roles.at_once("owner", SPACE, READ) is True, "it is asked for anew beside"
    await asyncio.sleep(0.05)
    assert roles.at_once("owner", SPACE, READ) is False, "and known before it would not hold any more"
    assert brokers.asked.count(("tenants", "acme")) == 2


async def test_an_answer_that_is_too_old_is_worth_nothing(roles: BrokerRoles, brokers: Brokers, clock: Clock) -> None:
    assert await roles.may("owner", SPACE, CHANGE)
    clock.now = 31.0
    assert roles.at_once("owner", SPACE, CHANGE) is None
    brokers.answers["tenants", "acme"] = LogError(Reason.PULSAR_ADMIN_UNREACHABLE, "It is away.")
    with pytest.raises(PolicyError, match=r"It is not known what roles may do in acme/orders: It is away\.") as caught:
        await roles.may("owner", SPACE, CHANGE)
    assert (caught.value.kind.value, caught.value.reason) == ("UNAVAILABLE", "AUTHORIZATION_UNKNOWN")
    assert await roles.may("admin", SPACE, CHANGE), "it is known of a superuser all the same"


@pytest.mark.parametrize("answer", [LogError(Reason.PULSAR_ADMIN_REFUSED, "No."), [], "page", {"adminRoles": "owner"}, {"adminRoles": [7]}])
async def test_what_brokers_do_not_tell_in_a_known_form_lets_nobody_in(roles: BrokerRoles, brokers: Brokers, answer: Any) -> None:
    brokers.answers["tenants", "acme"] = answer
    if answer == []:
        assert not await roles.may("owner", SPACE, READ)
        return
    with pytest.raises(PolicyError) as caught:
        await roles.may("owner", SPACE, READ)
    assert caught.value.reason == "AUTHORIZATION_UNKNOWN"


@pytest.mark.parametrize("said", [None, {}, {"superUserRoles": ""}, {"superUserRoles": "[]"}, {"superUserRoles": None}])
async def test_brokers_without_superusers_have_none(roles: BrokerRoles, brokers: Brokers, said: Any) -> None:
    brokers.answers["brokers", "configuration", "runtime"] = said
    assert not await permissions(roles, "")
    assert not await permissions(roles, "[]")
    assert not await permissions(roles, "admin")


async def test_a_tenant_that_does_not_exist_has_no_admins(roles: BrokerRoles) -> None:
    assert not await roles.may("owner", "nowhere/space", READ)


async def test_many_questions_are_asked_few_at_a_time_and_few_answers_are_kept(
    roles: BrokerRoles, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.goes_on.clear()
    asking = asyncio.gather(*(roles.may("nobody", f"t{number}/space", READ) for number in range(500)))
    await asyncio.sleep(0.05)
    brokers.goes_on.set()
    assert not any(await asking)
    assert brokers.most_at_once <= broker_roles._AT_ONCE
    assert len(roles._tenants) == 500
    monkeypatch.setattr(roles._tenants._answers, "most", 100)
    await roles.may("nobody", "one-more/space", READ)
    assert len(roles._tenants) == 100


async def test_those_who_ask_the_same_share_the_question(roles: BrokerRoles, brokers: Brokers) -> None:
    assert all(await asyncio.gather(*(roles.may("owner", f"acme/n{number}", CHANGE) for number in range(100))))
    assert brokers.asked.count(("tenants", "acme")) == 1


async def test_of_those_who_ask_and_go_away_nothing_is_left_in_the_line_before_others(roles: BrokerRoles, brokers: Brokers) -> None:
    brokers.goes_on.clear()
    for number in range(100):
        asking = asyncio.create_task(roles.may("stranger", f"t{number}/space", READ))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asking.cancel()
    owner = asyncio.create_task(roles.may("owner", SPACE, READ))
    await asyncio.sleep(0.05)
    assert len(brokers.asked) == broker_roles._AT_ONCE, "they are asked already, and go on"
    brokers.goes_on.set()
    assert await owner
    assert len(brokers.asked) == broker_roles._AT_ONCE + 1
