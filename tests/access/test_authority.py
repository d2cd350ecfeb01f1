"""A call of a proxy needs the permission of the proxy and of the principal for whom it speaks."""

from __future__ import annotations

import pytest

from topicpolicies_server.access import NOBODY, Caller, Permission, Way
from topicpolicies_server.access.authority import ByRoles

ALICE, GATEWAY = Caller("alice", Way.TOKEN), Caller("gateway", Way.CERTIFICATE, "alice")
SPACE = "acme/orders"


class Table:
    """Roles with the permissions that the test sets; None: not known at once, and granted when it is requested."""

    def __init__(self, **known: bool | None) -> None:
        self.known = known
        self.asked: list[str] = []
        self.closed = False

    def at_once(self, role: str, namespace: str, permission: Permission) -> bool | None:
        """Returns what is known at once."""
        assert (namespace, permission) == (SPACE, Permission.READ)
        return self.known.get(role, False)

    async def may(self, role: str, namespace: str, permission: Permission) -> bool:
        """Grants the permission unless it is known to be refused."""
        self.asked.append(role)
        return self.at_once(role, namespace, permission) is not False

    async def close(self) -> None:
        """Notes that it was closed."""
        self.closed = True


@pytest.mark.parametrize(
    ("gateway", "alice", "at_once", "may"),
    [
        (True, True, True, True),
        (True, False, False, False),
        (False, True, False, False),
        (False, False, False, False),
        (None, True, None, True),
        (True, None, None, True),
        (None, None, None, True),
        (None, False, False, False),
        (False, None, False, False),
    ],
)
async def test_a_proxys_call_needs_the_permission_of_both(
    gateway: bool | None, alice: bool | None, at_once: bool | None, may: bool
) -> None:
    authority = ByRoles(Table(gateway=gateway, alice=alice))
    assert authority.at_once(GATEWAY, SPACE, Permission.READ) is at_once
    assert await authority.may(GATEWAY, SPACE, Permission.READ) is may


async def test_for_a_caller_that_speaks_for_itself_one_role_is_looked_up() -> None:
    table = Table(alice=True, gateway=False)
    authority = ByRoles(table)
    assert authority.at_once(ALICE, SPACE, Permission.READ)
    assert await authority.may(ALICE, SPACE, Permission.READ)
    assert table.asked == ["alice"]
    assert authority.at_once(NOBODY, SPACE, Permission.READ) is False
    await authority.close()
    assert table.closed
