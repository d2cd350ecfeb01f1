"""Whether a process is alive, and whether it is ready to serve.

- ``readiness``: the state machine, without I/O and clock; ``log_probe``: asks the change log from time to time, and logs transitions
- ``pulse``: whether the event loop turns; ``report``: all of it, for probes
"""

from .log_probe import LogProbe
from .pulse import Pulse
from .readiness import Readiness, State, Transition
from .report import Check, Report, report

__all__ = ["Check", "LogProbe", "Pulse", "Readiness", "Report", "State", "Transition", "report"]
