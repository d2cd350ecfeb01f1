"""Namespaces in which a change of an update stream was refused because another process is the leader (``NOT_LEADER``).

Later changes of the stream are refused there too, even if this process has become the leader: otherwise they would overtake the refused
one, which the client may repeat. So such namespaces are remembered as long as the stream is open, and a stream with very many of them has
to end.
"""

from __future__ import annotations

from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from ..logs.change_log import NotLeader

MOST_REFUSED = 1_024
"""Namespaces that are remembered for one stream before it stops reading. Changes that it has read by then may add a few."""


class RefusedNamespaces:
    """Remembers, for one stream, the namespaces that another process leads, and the first refusal in each."""

    def __init__(self) -> None:
        self._refusals: dict[str, NotLeader] = {}

    def __len__(self) -> int:
        return len(self._refusals)

    def refusal(self, namespace: str) -> NotLeader | None:
        """Returns the error of further changes of a namespace; None: none of its changes was refused."""
        return self._refusals.get(namespace)

    def add(self, namespace: str, error: NotLeader) -> NotLeader:
        """Notes that a change of a namespace was refused. Returns the error to answer it with: that of the first one."""
        return self._refusals.setdefault(namespace, error)

    def full(self, namespace: str) -> PolicyError | None:
        """Returns the error that the stream is to end with if there are too many namespaces; None: there are not.

        Args:
            namespace: the namespace of the last refusal, for the error's metadata.
        """
        if len(self._refusals) < MOST_REFUSED:
            return None
        problem = f"Other sidecars write {MOST_REFUSED:,} of the namespaces that this stream changes: open a new stream for the rest."
        return PolicyError(Kind.UNAVAILABLE, Reason.NOT_LEADER, problem, metadata={"namespace": namespace})
