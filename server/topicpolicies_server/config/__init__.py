"""The configuration of a server or a guard: where it listens, where its log is, and every limit, each with its bounds.

A configuration is validated when it is made, so one that exists is valid; all problems are reported at once. The defaults are safe: a
server listens on loopback only, and one that other machines can reach needs TLS, or has to be told explicitly to do without.

- ``server``: all of it; ``limits``, ``address``, ``authentication``, ``authorization``, ``logs``, ``oauth2``, ``history``,
  ``checkpoints``, ``call_record``, ``telemetry``: its parts
- ``errors``: the error of a wrong configuration; ``files``: what is wrong with files that a configuration names; ``urls``: hides passwords
- ``insecure``, ``exposed``: what is allowed but unsafe, and warned of
- ``table``, ``declared``: every option, with its name, type, bounds, default and help; ``option``: how a value is read
- ``sources``: merges what flags, the environment and a file set into the values in force
- ``deriving``: values that follow from others; ``places``: the user's data folder
- ``making``: makes the configuration from the values in force
- ``rendering``: shows options to people: values, a sample file, and the reference
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
