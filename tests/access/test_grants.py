"""A call of a proxy has the permissions that both have, the proxy and the principal for whom it speaks."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from topicpolicies_server.access import NOBODY, Caller, Granted, Permission, Way
from topicpolicies_server.access.caller import NOTHING
from topicpolicies_server.access.grants import Grants, known

READ, BOTH = frozenset({Permission.READ}), frozenset({Permission.READ, Permission.CHANGE})
ALICE, GATEWAY = Caller("alice", Way.TOKEN), Caller("gateway", Way.CERTIFICATE, "alice")
SPACE = "acme/orders"


class Table:
    """Roles with their permissions; those of roles in ``later`` have to be awaited."""

    def __init__(self, later: set[str], **granted: Granted) -> None:
        self.asked: list[str] = []
        self._later = later
        self._granted = granted

    def granted(self, role: str, namespace: str) -> Granted | Awaitable[Granted]:
        """Returns the permissions, or an awaitable that finds out."""
        assert namespace == SPACE
        self.asked.append(role)
        return self._find(role) if role in self._later else self._granted.get(role, NOTHING)

    async def _find(self, role: str) -> Granted:
        return self._granted.get(role, NOTHING)


@pytest.mark.parametrize("later", [set(), {"gateway"}, {"alice"}, {"gateway", "alice"}])
@pytest.mark.parametrize(
    ("gateway", "alice", "granted"),
    [(BOTH, BOTH, BOTH), (BOTH, READ, READ), (READ, BOTH, READ), (BOTH, NOTHING, NOTHING), (NOTHING, BOTH, NOTHING)],
)
async def test_a_proxys_call_has_the_permissions_of_both(later: set[str], gateway: Granted, alice: Granted, granted: Granted) -> None:
    assert await known(Grants(Table(later, gateway=gateway, alice=alice).granted).of(GATEWAY, SPACE, ())) == granted


async def test_for_a_caller_that_speaks_for_itself_one_role_is_looked_up() -> None:
    table = Table(set(), alice=BOTH)
    grants = Grants(table.granted)
    assert grants.of(ALICE, SPACE, ()) == BOTH and grants.of(NOBODY, SPACE, ()) == NOTHING
    assert table.asked == ["alice", ""]
