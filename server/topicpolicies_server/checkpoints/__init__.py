"""Checkpoints: the view of each namespace at a place of its log, in a file, so that a start reads only the events behind that place.

Checkpoints are a cache. A damaged or missing one costs the time of reading the whole log, and nothing else.

- ``file``: the file of one namespace: its format, and which file is refused
- ``checkpoints``: the threads that write and read files
"""

from .checkpoints import LAST_SECONDS, Checkpoints, Pace
from .file import Checkpoint, Place, Refused, Restored

__all__ = ["LAST_SECONDS", "Checkpoint", "Checkpoints", "Pace", "Place", "Refused", "Restored"]
