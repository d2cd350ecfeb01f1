"""A change log in memory: for trials, and as the base of the tests' own log (``tests/memory_log``).

``MemoryStorage`` is what a cluster keeps; ``MemoryLog`` is one process's access to it. Several may share a storage, as several sidecars and
brokers share a namespace's topic. There are no threads here, and no clocks but the event loop's and the storage's ``now``: everything
happens in callbacks of the running loop, in the order in which they were scheduled. So a simulated event loop, which decides on time and
order, makes every run deterministic.
"""

from .log import MemoryLog, MemoryNamespaceLog
from .storage import MemoryStorage, StoredNamespace

__all__ = ["MemoryLog", "MemoryNamespaceLog", "MemoryStorage", "StoredNamespace"]
