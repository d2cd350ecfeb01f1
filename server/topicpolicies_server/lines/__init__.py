"""The lines that a process writes to standard error: all in one format, including those that libraries write by themselves.

- ``formats``: the formats of a line; ``sink``: writes each line whole, on a thread of its own
- ``setup``: sets up the process's log; ``foreign``: turns what libraries write to standard error into lines of the log
"""

from .formats import line_maker
from .setup import set_up_logging
from .sink import STANDARD_ERROR, Sink, UnwrittenError

__all__ = ["STANDARD_ERROR", "Sink", "UnwrittenError", "line_maker", "set_up_logging"]
