"""Namespaces in which changes of a stream were refused because another process writes them.

Later changes of the stream are refused there too, even if this process leads by then, or they would overtake the one that was refused. So
they are remembered as long as the stream is open, and a stream that meets very many of them has to end.
"""

from __future__ import annotations

from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from ..logs.change_log import NotLeader

MOST_ELSEWHERE = 1_024
"""Namespaces of which a stream may have changes refused; then it reads no more. Those that it has read by then may add a few."""


class LedElsewhere:
    """Those of one stream."""

    def __init__(self) -> None:
        self._refusals: dict[str, NotLeader] = {}

    def __len__(self) -> int:
        return len(self._refusals)

    def refusal(self, namespace: str) -> NotLeader | None:
        """What changes of a namespace are told; None: none of them was refused."""
        return self._refusals.get(namespace)

    def refused(self, namespace: str, error: NotLeader) -> NotLeader:
        """A change of a namespace was refused; what it is told: what the first one was."""
        return self._refusals.setdefault(namespace, error)

    def full(self, namespace: str) -> PolicyError | None:
        """What the stream is to end with if there are too many; None: there are not.

        Args:
            namespace: the one that was refused last.
        """
        if len(self._refusals) < MOST_ELSEWHERE:
            return None
        problem = f"This stream had changes refused in {MOST_ELSEWHERE:,} namespaces, as others write them: open a new one for the rest."
        return PolicyError(Kind.UNAVAILABLE, Reason.NOT_LEADER, problem, metadata={"namespace": namespace})
