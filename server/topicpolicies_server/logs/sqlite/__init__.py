"""The embedded change log: durable, in one SQLite file, for one sidecar without a broker.

- ``file``, ``events``: the format of the file, and the SQL for its namespaces and events
- ``opening``, ``mark``: a file is opened, and compared with the mark beside it
- ``writer``, ``appending``, ``jobs``, ``fate``, ``refusals``: the thread that commits events in groups, and what becomes of failed commits
- ``loading``: stored events, read page by page on another thread while the event loop goes on
- ``compaction``: superseded events are deleted, in small steps
- ``log``, ``namespace``, ``reach``: the protocol of a change log on top of these

Every namespace is a log with one partition and dense row numbers. The entries are the messages that would go to a broker, payload and
properties, so what holds for a Pulsar log holds for this one.
"""

from .compaction import Compaction
from .log import SqliteLog

__all__ = ["Compaction", "SqliteLog"]
