"""Where calls go, without I/O: to the service's address, or to the sidecar that writes a namespace.

Sidecars may share the namespaces of a cluster so that each is written by one of them, its *leader*. The others serve reads and watches; a
change they refuse with the reason NOT_LEADER, and name the leader's address. It is remembered by namespace, and forgotten when it fails.
"""

from __future__ import annotations

from collections import OrderedDict

from grpc import StatusCode

from .errors import TopicPoliciesError

MOST_LEADERS = 10_000
"""Namespaces whose leaders are remembered."""
MOST_CONNECTIONS = 64
"""Addresses that a client has connections to at the same time, at most, beside those that it was given."""
NOT_LEADER = "NOT_LEADER"
"""Reason: another sidecar writes the namespace."""
_ELSEWHERE = frozenset(
    {StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED, StatusCode.INTERNAL, StatusCode.UNKNOWN}
)
"""How calls fail that another sidecar may answer."""
_FULL = frozenset({"TOO_MANY_NAMESPACES", "TOO_MANY_WATCHES"})
"""Reasons: this sidecar has no room, and another one may have some."""


def leader_named(error: TopicPoliciesError) -> str:
    """The leader's address that an error names; "" if it names none."""
    return error.metadata.get("leader", "") if error.from_service and error.reason == NOT_LEADER else ""


class Routes:
    """Where the calls of one client go."""

    def __init__(self, addresses: tuple[str, ...], *, follows: bool = True) -> None:
        """``addresses``: those that the client was given; ``follows``: whether it goes anywhere else."""
        self.addresses = addresses
        self._follows = follows
        self._turn = 0
        self._leaders: OrderedDict[str, str] = OrderedDict()

    @property
    def follows(self) -> bool:
        """Whether it goes where an error names the leader."""
        return self._follows

    @property
    def address(self) -> str:
        """Where to call that needs no leader."""
        return self.addresses[self._turn]

    def to(self, namespace: str) -> str:
        """Where a namespace is read and written best."""
        return self._leaders.get(namespace, self.address)

    def failed(self, address: str, namespace: str, error: TopicPoliciesError) -> bool:
        """Takes note that a call to ``address`` has failed.

        Returns:
            Whether the error named another address, so that there is no need to wait before it is tried.
        """
        leader = leader_named(error)
        if leader and self._follows:
            self._leaders[namespace] = leader
            if len(self._leaders) > MOST_LEADERS:
                self._leaders.popitem(last=False)
            return leader != address
        if error.code in _ELSEWHERE or (error.from_service and error.reason in _FULL):
            if self._leaders.get(namespace) == address:
                self._leaders.pop(namespace, None)
            if address == self.address:
                self._turn = (self._turn + 1) % len(self.addresses)
        return False
