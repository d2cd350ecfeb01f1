"""What is the same of all logs that no broker writes: their positions are row numbers, and whoever has one open may append."""

from __future__ import annotations

from ..core.policies.events import Position
from . import rows
from .change_log import ANYBODY, Leadership


class Brokerless:
    """A part of ``change_log.NamespaceLog``."""

    def follows(self, earlier: Position, later: Position) -> bool:
        """True for neighbouring row numbers: rows are numbered without gaps."""
        return rows.directly_follows(earlier, later)

    @property
    def in_place(self) -> bool:
        """No broker changes documents here."""
        return False

    @property
    def leadership(self) -> Leadership:
        """Whoever has it open may append."""
        return ANYBODY

    def contend(self) -> None:
        """Does nothing: see ``leadership``."""
