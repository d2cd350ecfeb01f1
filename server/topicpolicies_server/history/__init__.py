"""The history: the sidecar's own record of every event that it has read, which outlives the log's compaction."""

from .history import History, check_history, open_history
from .recorder import Recorder
from .writer import Bounds

__all__ = ["Bounds", "History", "Recorder", "check_history", "open_history"]
