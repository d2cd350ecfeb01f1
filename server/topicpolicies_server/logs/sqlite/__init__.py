"""The embedded change log: durable, in one SQLite file, for one sidecar without a broker.

- ``log``: what callers use, the log of a file and of each namespace in it
- ``file``: the format of the file, its checksums, how it is opened, and how a namespace is read page by page while the event loop goes on
- ``tail_guard``: the mark beside the file, by which a file that lost its end is recognized
- ``writer``: the thread that commits events in groups, and what becomes of each
- ``compaction``: superseded events are deleted, in small steps

Every namespace is a log with one partition and dense row numbers. The entries are the messages that would go to a broker, payload and
properties, so what holds for a Pulsar log holds for this one.
"""

from .compaction import Compaction
from .log import SqliteLog

__all__ = ["Compaction", "SqliteLog"]
