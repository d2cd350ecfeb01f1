"""Checkpoints: the heads of each namespace at a place of its log, in a file, so that a start reads only the events behind that place.

Checkpoints are a cache. A damaged or missing one, or a damaged file, costs the time of reading the whole log, and nothing else.
"""

from .checkpoints import Checkpoints, Pace, open_checkpoints
from .header import CheckpointHeader
from .keeper import Keeper, Place
from .restoring import Restored

__all__ = ["CheckpointHeader", "Checkpoints", "Keeper", "Pace", "Place", "Restored", "open_checkpoints"]
