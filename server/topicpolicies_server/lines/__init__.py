"""The lines that a process tells on standard error: one format for all of them, whoever wrote them.

- ``formats``: how a line is written; ``sink``: where, each of them whole
- ``setup``: the process's log; ``foreign``: what libraries write to standard error by themselves
"""

from .formats import line_maker
from .setup import tell_lines
from .sink import STANDARD_ERROR, Sink, UnwrittenError

__all__ = ["STANDARD_ERROR", "Sink", "UnwrittenError", "line_maker", "tell_lines"]
