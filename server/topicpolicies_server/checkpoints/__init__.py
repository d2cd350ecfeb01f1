"""Checkpoints: the heads of a namespace with the place of its log that they hold for, in a file: a start reads only what came since.

They are a cache. What is wrong with one, or with the file, costs the time of reading the whole log, and nothing else.
"""

from .about import About
from .checkpoints import Checkpoints, Pace, open_checkpoints
from .keeper import Keeper, Place
from .restoring import Restored

__all__ = ["About", "Checkpoints", "Keeper", "Pace", "Place", "Restored", "open_checkpoints"]
