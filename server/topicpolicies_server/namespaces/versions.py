"""Waits until a namespace's view has come to a version."""

from __future__ import annotations

from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey
from ..core.policies.events import Position
from ..core.reasons import Reason
from .follower import Follower
from .usage import Usage
from .waiting import Waiting


class Versions:
    """Waits for versions of one namespace."""

    def __init__(self, name: str, seconds: float, usage: Usage) -> None:
        """Begins without waits.

        Args:
            name: ``tenant/namespace``.
            seconds: how long a caller may wait.
            usage: counts the callers that wait.
        """
        self._name = name
        self._seconds = seconds
        self._usage = usage
        self.waiting = Waiting()
        """The waits, to be woken as the view moves on."""

    async def reached(self, follower: Follower, key: PolicyKey, position: Position) -> None:
        """Returns once the view has come to a version of a key.

        Raises:
            PolicyError: it did not in time (``VERSION_NOT_REACHED``).
        """
        assert follower.log is not None, "open"
        partition = follower.log.partition_of(key)
        if follower.positions[partition] >= position or follower.view.version(key) >= position:
            return
        try:
            with self._usage.waiting():
                await self.waiting.until(partition, position, self._seconds)
        except TimeoutError:
            raise not_reached(self._name, position) from None


def not_reached(name: str, position: Position) -> PolicyError:
    """Makes the DEADLINE_EXCEEDED error: the view of the namespace ``name`` has not come to a version in time."""
    return PolicyError(
        Kind.DEADLINE_EXCEEDED,
        Reason.VERSION_NOT_REACHED,
        f"The log of {name} has not been read up to version {position}: try again, or read without at_least.",
        metadata={"at_least_version": position},
    )
