"""The memory log as tests and the simulation want it: with faults, with seats, and with one writer at a time.

- ``log``: the product's memory log, whose ways may be delayed, cut and held; ``faults``: what goes wrong
- ``storage``, ``seats``: what a cluster keeps, and who may write it; ``led``: a log that has one writer at a time
- ``ledgers``: the same as brokers keep it, compacted and trimmed; ``ledgered``, ``ledger_reader``: a log that is read as the Pulsar log is
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
