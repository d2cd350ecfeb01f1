"""Checkpoints: the view of each namespace at a place of its log, in a file, so that a start reads only the events behind that place.

Checkpoints are a cache. A damaged or missing one costs the time of reading the whole log, and nothing else.

- ``file``: the file of one namespace: its format, and which file is refused
- ``checkpoints``: when files are written and read
"""

from .checkpoints import Checkpoints, Pace, checkpoint_of
from .file import Checkpoint, Place, Refused, Restored

__all__ = ["Checkpoint", "Checkpoints", "Pace", "Place", "Refused", "Restored", "checkpoint_of"]
