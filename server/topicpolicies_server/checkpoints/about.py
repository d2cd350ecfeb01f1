"""What a checkpoint holds for: which log, up to where, and what of a view is not of a single key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from topicpolicies.v1 import policies_pb2

from ..core.fold.fold import FoldContext
from ..core.policies.events import Position
from ..sqlite_file import Damaged


class About(NamedTuple):
    """What a checkpoint holds for."""

    id: str
    """Names this very checkpoint: the next one says that it goes on with it."""
    made_by: str
    """What made it (``maker``): another release may make something else of the same log."""
    identity: str
    """Of the log."""
    positions: tuple[Position, ...]
    """Where the view stood, by partition."""
    anchors: tuple[str, ...]
    """What stands at each of these positions (``logs.change_log.anchor_of``); "" if that is not known."""
    events: tuple[Position, ...]
    """Where the last event of each partition stands that is told to whoever writes down what is folded; "" if there was none."""
    complete: tuple[Position | None, ...]
    """Behind which position of each partition nothing had been compacted away when the view was begun."""
    forgotten: Mapping[int, Position]
    """Up to where deletions were forgotten, by partition."""
    number: int
    """Of the last change."""
    times: Mapping[int, int]
    """The time of each partition by its events, in milliseconds since 1970 (``core/reading/lately``)."""
    context: FoldContext
    """What the fold knew besides the log."""
    size: int
    """Bytes of the documents."""
    unreadable: int
    """Entries of the log that could not be read."""

    def to_text(self) -> str:
        """As it stands in the file."""
        return json.dumps(self._asdict() | {"context": self.context._asdict()}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> About:
        """Reads it.

        Raises:
            Damaged: it is none.
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
            raise Damaged(f"what a checkpoint holds for can't be read ({type(error).__name__})") from error


_SERVER = Path(__file__).parents[1]
_MAKERS = ("core", "logs/avro", "checkpoints")
"""The folders whose sources decide what is made of a log's events, and how that is written."""


@cache
def maker() -> str:
    """Names what a checkpoint depends on besides its log: the release, its sources as far as they are there, and its documents' form."""
    made = hashlib.blake2b(policies_pb2.DESCRIPTOR.serialized_pb, digest_size=8)
    for path in sorted(path for folder in _MAKERS for path in (_SERVER / folder).rglob("*.py")):
        made.update(path.read_bytes())
    return f"{metadata.version('topicpolicies')}/{made.hexdigest()}"
