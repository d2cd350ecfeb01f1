"""The memory log for tests and the simulation: with faults, with seats of exclusive producers, and with one writer at a time.

- ``log``: the product's memory log, whose messages may be delayed, lost and held back; ``faults``: what goes wrong
- ``storage``, ``seats``: what a cluster stores, and which producer may write it; ``led``: a log that has one writer at a time
- ``ledgers``: storage as brokers keep it, compacted and trimmed; ``ledgered``, ``ledger_reader``: a log that is read as the Pulsar log is
"""

from topicpolicies_server.logs.memory.channel import Channel
from topicpolicies_server.logs.memory.log import IN_FLIGHT

from .faults import Fate, Faults, Outcome
from .log import MemoryLog, MemoryNamespaceLog, Sent
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
