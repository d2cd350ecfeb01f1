"""The record of calls: which calls it has, and where it is written."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path


class Recorded(enum.Enum):
    """Which calls are recorded."""

    OFF = "off"
    CHANGES = "changes"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecordConfig:
    """Which calls are recorded, and where."""

    which: Recorded = Recorded.CHANGES
    path: Path | None = None
    """The file, which is created if there is none; None: standard error."""

    def problems(self) -> list[str]:
        """Returns what is wrong, a sentence each."""
        if self.path is None:
            return []
        try:
            if self.path.is_dir():
                return [f'The record of calls can\'t be kept in "{self.path}", which is a folder: name a file.']
        except OSError as error:
            return [f'The record of calls can\'t be kept in "{self.path}": {error.strerror}.']
        return []
