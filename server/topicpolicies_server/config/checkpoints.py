"""Where views are kept, so that a start reads only what came since."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .files import misplaced


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsConfig:
    """The checkpoints of all namespaces. They are a cache: without the file a start takes longer."""

    path: Path
    """The SQLite file; it is created if need be. It belongs to one server."""
    make_folder: bool = False
    """As with the embedded log."""
    named_here: bool = False
    """Whether its name was not given, but follows from that of the log: then nobody else's file has it."""

    def problems(self) -> list[str]:
        """What is wrong with it."""
        return misplaced("checkpoint", self.path, make_folder=self.make_folder)


def checkpoints_beside(log: Path) -> Path:
    """Where checkpoints are kept unless it is said: beside the embedded log's file."""
    return log.with_name(f"{log.stem}.checkpoints{log.suffix}")
