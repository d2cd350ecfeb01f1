"""The header of a checkpoint: of which log it is, at which place, and what a view knows that does not belong to a single key."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from topicpolicies.v1 import policies_pb2

from ..core.fold.fold import FoldContext
from ..core.policies.events import Position
from ..sqlite_file import Damaged


class CheckpointHeader(NamedTuple):
    """The header of a checkpoint."""

    id: str
    """Identifies this very checkpoint: the next one names it as its base."""
    made_by: str
    """The code that made the checkpoint (``maker``): another release may derive something else from the same log."""
    identity: str
    """The log's identity."""
    positions: tuple[Position, ...]
    """The place of the view: the position up to which it had read, by partition."""
    anchors: tuple[str, ...]
    """What stands at each of these positions (``logs.change_log.anchor_of``); "" where that is not known."""
    events: tuple[Position, ...]
    """By partition: the position of the last entry that a history records (an event, or an unreadable entry); "" if there was none."""
    complete: tuple[Position | None, ...]
    """By partition: the position behind which nothing had been compacted away when the view was begun."""
    forgotten: Mapping[int, Position]
    """By partition: the position up to which deletions were forgotten."""
    number: int
    """The number of the last change."""
    times: Mapping[int, int]
    """The time of each partition by its events, in milliseconds since 1970 (``core/reading/recent_cells``)."""
    context: FoldContext
    """What the fold knew besides the log."""
    size: int
    """The size of the documents in bytes."""
    unreadable: int
    """How many entries of the log could not be read."""

    def to_text(self) -> str:
        """Returns the header as it is stored in the file."""
        return json.dumps(self._asdict() | {"context": self.context._asdict()}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> CheckpointHeader:
        """Reads a header.

        Raises:
            Damaged: the text is no header.
        """
        try:
            found = json.loads(text)
            context = FoldContext(**found.pop("context"))
            for name in ("positions", "anchors", "events", "complete"):
                found[name] = tuple(found[name])
            for name in ("forgotten", "times"):
                found[name] = {int(partition): value for partition, value in found[name].items()}
            return cls(**found, context=context)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Damaged(f"the log and place of a checkpoint can't be read ({type(error).__name__})") from error


_SERVER = Path(__file__).parents[1]
_MAKERS = ("core", "logs/avro", "checkpoints")
"""The folders whose sources decide what is derived from a log's events, and how it is written."""


@cache
def maker() -> str:
    """Returns what a checkpoint depends on besides its log: this release and Python's, the sources (if installed), the documents' form."""
    made = hashlib.blake2b(policies_pb2.DESCRIPTOR.serialized_pb, digest_size=8)
    for path in sorted(path for folder in _MAKERS for path in (_SERVER / folder).rglob("*.py")):
        made.update(path.read_bytes())
    return f"{metadata.version('topicpolicies')}/{platform.python_version()}/{made.hexdigest()}"
