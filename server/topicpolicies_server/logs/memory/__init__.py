"""A change log in memory: for trying things out, and what the tests' own log (``tests/memory_log``) is made of.

``MemoryStorage`` is what a cluster keeps; ``MemoryLog`` is one process's view of it. Several may share a storage, as several sidecars and
brokers share a namespace's topic. Nothing here knows a thread, and no clock but the loop's and the storage's ``now``: everything happens
in callbacks of the running loop, in the order in which they were asked for, so that a loop that decides about time and order
decides everything.
"""

from .log import MemoryLog, MemoryNamespaceLog
from .storage import MemoryStorage, StoredNamespace

__all__ = ["MemoryLog", "MemoryNamespaceLog", "MemoryStorage", "StoredNamespace"]
