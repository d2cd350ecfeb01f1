"""The configuration of a server or a guard: where it listens, where its log is, and every limit, each with its bounds.

Values are checked when they are read, and what concerns several of them when the configuration is made; all problems are reported at once.
The defaults are safe: a server listens on loopback only, and one that other machines can reach needs TLS, or has to be told explicitly to
do without.

- ``server``: all of it; ``limits``, ``logs``, ``callers``: its larger sections; ``address``: addresses, and the error
- ``option``: a field of a section as an option, and how a value is read
- ``sources``: all options, and what flags, the environment and a file set, merged into the values in force
- ``building``: makes the configuration from the values in force
- ``insecure``: what is allowed but unsafe, and warned of
- ``rendering``: shows options to people: values, a sample file, and the reference
"""

from .address import DEFAULT_LISTEN, DEFAULT_PORT, Address, ConfigError, parse_address
from .building import history_beside
from .callers import AuthenticationConfig, AuthorizationConfig, OidcConfig, TokenConfig
from .insecure import insecure
from .limits import Limits
from .logs import RECALLED_ENTRIES, EmbeddedLogConfig, LogConfig, OAuth2Config, PulsarLogConfig
from .server import (
    AccessLogConfig,
    GuardConfig,
    HistoryConfig,
    LogFormat,
    ServerConfig,
    TelemetryConfig,
    TlsConfig,
)

__all__ = [
    "DEFAULT_LISTEN",
    "DEFAULT_PORT",
    "RECALLED_ENTRIES",
    "AccessLogConfig",
    "Address",
    "AuthenticationConfig",
    "AuthorizationConfig",
    "ConfigError",
    "EmbeddedLogConfig",
    "GuardConfig",
    "HistoryConfig",
    "Limits",
    "LogConfig",
    "LogFormat",
    "OAuth2Config",
    "OidcConfig",
    "PulsarLogConfig",
    "ServerConfig",
    "TelemetryConfig",
    "TlsConfig",
    "TokenConfig",
    "history_beside",
    "insecure",
    "parse_address",
]
