"""What a server is told before it starts: where it listens, where its log is, and every limit, each with its bounds.

All of it is checked when it is made, so that a configuration that exists is a valid one; everything that is wrong is said at once.
The defaults are safe: loopback only, and a server that others can reach must be given TLS or be told that it is to do without.

- ``limits``, ``address``, ``logs``, ``history``, ``server``: the configuration itself
- ``errors``, ``files``: what is wrong with it
"""

from .address import DEFAULT_LISTEN, DEFAULT_PORT, Address, parse_address
from .errors import ConfigError
from .history import HistoryConfig, history_beside
from .limits import Limits, bounds
from .logs import MOST_RECALLED_ENTRIES, RECALLED_ENTRIES, EmbeddedLogConfig, LogConfig, PulsarLogConfig, Writer
from .server import GuardConfig, LogLevel, ServerConfig, TlsConfig

__all__ = [
    "DEFAULT_LISTEN",
    "DEFAULT_PORT",
    "MOST_RECALLED_ENTRIES",
    "RECALLED_ENTRIES",
    "Address",
    "ConfigError",
    "EmbeddedLogConfig",
    "GuardConfig",
    "HistoryConfig",
    "Limits",
    "LogConfig",
    "LogLevel",
    "PulsarLogConfig",
    "ServerConfig",
    "TlsConfig",
    "Writer",
    "bounds",
    "history_beside",
    "parse_address",
]
