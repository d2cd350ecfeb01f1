"""The embedded change log: durable, in one SQLite file, for one sidecar without a broker.

- ``lock``: one process writes the file, and a second one is told so
- ``file``: the file's format, and all its SQL
- ``writer``: the thread that commits what was appended, in groups
- ``loading``: what is stored, read in pages while the loop goes on
- ``compaction``: forgetting what is superseded, in small steps
- ``log``: the protocol on top of these

Every namespace is a log with one partition and dense row numbers. The entries are the messages that would go to a broker, payload and
properties, so that what is true of the one log is true of the other.
"""

from .compaction import Compaction
from .log import SqliteLog

__all__ = ["Compaction", "SqliteLog"]
