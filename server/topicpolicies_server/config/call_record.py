"""The record of calls: which, and where."""

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
    """What is recorded of calls, and where."""

    which: Recorded = Recorded.CHANGES
    path: Path | None = None
    """A file, which is made if there is none; None: standard error."""

    def problems(self) -> list[str]:
        """What is wrong with it."""
        if self.path is None:
            return []
        try:
            if self.path.is_dir():
                return [f'The record of calls can\'t be kept in "{self.path}", which is a folder: name a file.']
        except OSError as error:
            return [f'The record of calls can\'t be kept in "{self.path}": {error.strerror}.']
        return []
