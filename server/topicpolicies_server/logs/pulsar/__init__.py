"""Pulsar's own change logs: the ``__change_events`` topic of each namespace.

- ``log``: all of them; ``namespace_log``: one, opened; ``health_checks``: what is looked at from time to time
- ``reach``: whether the cluster can be reached; ``contacts``: what is known of the connections
- ``reading``, ``writing``: what their names say
- ``admin``: the brokers' admin API; ``client``: pulsar-client
- ``ids``: positions
- ``credentials``, ``limits``: how to get in, and how long to wait; ``opening``: all of that by a configuration
"""

from .credentials import TlsOptions, TokenSource, token_from_environment, token_from_file
from .limits import PulsarLimits
from .log import PulsarLog
from .namespace_log import PulsarNamespaceLog

__all__ = ["PulsarLimits", "PulsarLog", "PulsarNamespaceLog", "TlsOptions", "TokenSource", "token_from_environment", "token_from_file"]
