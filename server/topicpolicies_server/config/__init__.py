"""What a server is told before it starts: where it listens, where its log is, and every limit, each with its bounds.

All of it is checked when it is made, so that a configuration that exists is a valid one; everything that is wrong is said at once.
The defaults are safe: loopback only, and a server that others can reach must be given TLS or be told that it is to do without.

- ``limits``, ``address``, ``authentication``, ``authorization``, ``logs``, ``oauth2``, ``history``, ``checkpoints``, ``call_record``,
  ``telemetry``, ``server``: what is configured
- ``errors``, ``files``: what is wrong with it; ``insecure``: what is allowed, and told of
- ``table``: every option, with its name, type, bounds, default and help; ``option``: how a value is read
- ``sources``: what flags, the environment and a file say, and what is therefore in force
- ``settling``: values that follow from others; ``places``: the user's data folder
- ``making``: the configuration of what is in force
- ``telling``: the options for people: a sample file, and the reference
"""

from .address import DEFAULT_LISTEN, DEFAULT_PORT, Address, parse_address
from .authentication import AuthenticationConfig, OidcConfig, TokenConfig
from .authorization import AuthorizationConfig
from .call_record import CallRecordConfig, Recorded
from .checkpoints import CheckpointsConfig
from .errors import ConfigError
from .history import HistoryConfig, history_beside
from .insecure import insecure
from .limits import Limits, bounds
from .logs import MOST_RECALLED_ENTRIES, RECALLED_ENTRIES, EmbeddedLogConfig, LogConfig, PulsarLogConfig, Writer
from .oauth2 import OAuth2Config
from .server import GuardConfig, LogFormat, LogLevel, ServerConfig, TlsConfig
from .telemetry import TelemetryConfig

__all__ = [
    "DEFAULT_LISTEN",
    "DEFAULT_PORT",
    "MOST_RECALLED_ENTRIES",
    "RECALLED_ENTRIES",
    "Address",
    "AuthenticationConfig",
    "AuthorizationConfig",
    "CallRecordConfig",
    "CheckpointsConfig",
    "ConfigError",
    "EmbeddedLogConfig",
    "GuardConfig",
    "HistoryConfig",
    "Limits",
    "LogConfig",
    "LogFormat",
    "LogLevel",
    "OAuth2Config",
    "OidcConfig",
    "PulsarLogConfig",
    "Recorded",
    "ServerConfig",
    "TelemetryConfig",
    "TlsConfig",
    "TokenConfig",
    "Writer",
    "bounds",
    "history_beside",
    "insecure",
    "parse_address",
]
