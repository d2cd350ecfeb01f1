"""The address that each call is sent to, without I/O: one of the client's own addresses, or that of a namespace's leader.

Sidecars may share the namespaces of a cluster so that each namespace is written by one of them, its *leader*. The others serve reads and
watches, and refuse a change with the reason NOT_LEADER, which names the leader's address. The client remembers the leader of a namespace,
and forgets it when a call to the leader fails.
"""

from __future__ import annotations

from collections import OrderedDict

from grpc import StatusCode

from .errors import TopicPoliciesError

MOST_LEADERS = 10_000
"""For how many namespaces the leader is remembered at most."""
MOST_CONNECTIONS = 64
"""To how many addresses a client has connections at the same time at most, beside those that it was given."""
NOT_LEADER = "NOT_LEADER"
"""Reason: another sidecar writes the namespace."""
_ELSEWHERE = frozenset(
    {StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED, StatusCode.INTERNAL, StatusCode.UNKNOWN}
)
"""The codes of failures after which another sidecar may answer."""
_FULL = frozenset({"TOO_MANY_NAMESPACES", "TOO_MANY_WATCHES"})
"""Reasons: this sidecar is at a limit, and another one may not be."""


def leader_named(error: TopicPoliciesError) -> str:
    """Returns the leader's address that an error names; "": it names none."""
    return error.metadata.get("leader", "") if error.from_service and error.reason == NOT_LEADER else ""


class Routes:
    """Chooses the address for each call of one client."""

    def __init__(self, addresses: tuple[str, ...], *, follows_leaders: bool = True) -> None:
        """``addresses``: the addresses that the client was given; ``follows_leaders``: whether it also calls leaders at other addresses."""
        self.addresses = addresses
        self._follows_leaders = follows_leaders
        self._turn = 0
        """The index of the address in use."""
        self._leaders: OrderedDict[str, str] = OrderedDict()
        """The addresses of leaders, by namespace; the oldest first."""

    @property
    def follows_leaders(self) -> bool:
        """Whether a change goes to the leader that an error names."""
        return self._follows_leaders

    @property
    def address(self) -> str:
        """The address in use, for calls that need no leader."""
        return self.addresses[self._turn]

    def to(self, namespace: str) -> str:
        """Returns the address for calls about a namespace: its leader's, if that is known, else the address in use."""
        return self._leaders.get(namespace, self.address)

    def failed(self, address: str, namespace: str, error: TopicPoliciesError) -> bool:
        """Takes note of a failed call: remembers the leader that the error names, or moves on from an address that failed.

        Args:
            address: where the call was sent.
            namespace: what the call was about; "": no namespace.
            error: how it failed.

        Returns:
            Whether the error names another address, which can be called without a pause.
        """
        leader = leader_named(error)
        if leader and self._follows_leaders:
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
