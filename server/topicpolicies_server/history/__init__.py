"""The history: the sidecar's own record of every event that it has read, which outlives the log's compaction."""

from .history import History, check_history, open_history
from .scribe import Scribe
from .trimming import Bounds

__all__ = ["Bounds", "History", "Scribe", "check_history", "open_history"]
