"""What the logs without a broker have in common: their positions are row numbers, and the process that has one open may append to it."""

from __future__ import annotations

from ..core.policies.events import Position
from . import rows
from .avro.codec import EMBEDDED_CLUSTER
from .change_log import ANYBODY, Leadership


class Brokerless:
    """A mixin: the members of ``change_log.NamespaceLog`` that are the same in every log without a broker."""

    def follows(self, earlier: Position, later: Position) -> bool:
        """Whether the row numbers are adjacent: rows are numbered without gaps."""
        return rows.directly_follows(earlier, later)

    @property
    def cluster(self) -> str:
        """The name that the embedded log's events have for the cluster."""
        return EMBEDDED_CLUSTER

    @property
    def in_place(self) -> bool:
        """False: no broker writes to this log."""
        return False

    @property
    def leadership(self) -> Leadership:
        """``ANYBODY``: there is no leader to elect."""
        return ANYBODY

    def contend(self) -> None:
        """Does nothing: see ``leadership``."""
