"""The memory log for tests and the simulation: with faults, with seats of exclusive producers, and with one writer at a time.

- ``log``: a log in memory, whose messages may be delayed, lost and held back; ``channel``: how they travel, and what goes wrong
- ``storage``: what a cluster stores, and which producer may write it; ``led``: a log that has one writer at a time
- ``ledgers``: storage as brokers keep it, compacted and trimmed; ``ledgered``: a log that is read as the Pulsar log is
"""

from .channel import Channel, Fate, Faults, Outcome
from .log import IN_FLIGHT, MemoryLog, MemoryNamespaceLog, Sent
from .storage import MemoryStorage, StoredNamespace

__all__ = [
    "IN_FLIGHT",
    "Channel",
    "Fate",
    "Faults",
    "MemoryLog",
    "MemoryNamespaceLog",
    "MemoryStorage",
    "Outcome",
    "Sent",
    "StoredNamespace",
]
