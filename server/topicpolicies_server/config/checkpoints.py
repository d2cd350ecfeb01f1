"""Where checkpoints of views are kept, so that a start reads only the part of the logs behind them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .files import misplaced


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsConfig:
    """The checkpoints of all namespaces. They are a cache: without the file a start takes longer."""

    path: Path
    """The SQLite file, which is created if there is none. It belongs to one server."""
    create_parent: bool = False
    """Whether the file's directory is made before the server starts (``EmbeddedLogConfig.create_parent``)."""
    default_path: bool = False
    """Whether the path was not set, but follows from that of the log: a file that is found there is this server's own."""

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        return misplaced("file of checkpoints", self.path, create_parent=self.create_parent)


def checkpoints_beside(log: Path) -> Path:
    """Returns the default path of the checkpoints: beside the embedded log's file."""
    return log.with_name(f"{log.stem}.checkpoints{log.suffix}")
