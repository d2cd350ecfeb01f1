"""Whether a process is well, and whether it can do what it is for.

- ``readiness``: the states, without I/O and clock; ``watch``: asks the change log from time to time, and tells of transitions
- ``pulse``: whether the event loop turns; ``report``: all of it for probes
"""

from .pulse import Pulse
from .readiness import Readiness, State, Transition
from .report import Check, Report, report
from .watch import LogWatch

__all__ = ["Check", "LogWatch", "Pulse", "Readiness", "Report", "State", "Transition", "report"]
