"""Where the server keeps its own record of every event, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .files import misplaced


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryConfig:
    """The server's own record of every event that it reads."""

    path: Path
    """The SQLite file, which is created if there is none. It belongs to one server."""
    max_age_seconds: float = 366 * 86_400.0
    """The age in seconds beyond which an entry is dropped."""
    max_bytes: int = 1 << 30
    """How many bytes of the file may be in use; beyond them the entries that were recorded first are dropped."""
    create_parent: bool = False
    """Whether the file's directory is made before the server starts (``EmbeddedLogConfig.create_parent``)."""

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        found = misplaced("history", self.path, create_parent=self.create_parent)
        if not 60 <= self.max_age_seconds <= 100 * 366 * 86_400:
            found.append(f"The history must keep entries for a minute at least, a hundred years at most, not {self.max_age_seconds:g} s.")
        if not 1 << 20 <= self.max_bytes <= 1 << 44:
            found.append(f"The history must be allowed 1 MiB at least and 16 TiB at most, not {self.max_bytes} bytes.")
        return found


def history_beside(log: Path) -> Path:
    """Returns the default path of the history: beside the embedded log's file."""
    return log.with_name(f"{log.stem}.history{log.suffix}")
