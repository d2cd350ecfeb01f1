"""Where checkpoints of views are kept, so that a start reads only the part of the logs behind them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .files import misplaced


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsConfig:
    """The checkpoints of all namespaces. They are a cache: without the files a start takes longer."""

    path: Path
    """The directory of the files, which is created if there is none."""
    create_parent: bool = False
    """Whether the directory above it is made before the server starts (``EmbeddedLogConfig.create_parent``)."""

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        return misplaced("directory of checkpoints", self.path, create_parent=self.create_parent, folder=True)


def checkpoints_beside(log: Path) -> Path:
    """Returns the default path of the checkpoints: beside the embedded log's file."""
    return log.with_name(f"{log.stem}.checkpoints")
