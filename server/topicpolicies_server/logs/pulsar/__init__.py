"""Pulsar's own change logs: the ``__change_events`` topic of each namespace.

- ``log``: all of them; ``namespace_log``: one, opened; ``rounds``: what is looked at from time to time
- ``following``, ``reader``: reading; ``writer``: writing; ``leadership``: who may, where only one may
- ``ids``: positions; ``origins``: what producers' names tell
- ``topics``, ``schemas``, ``facts``: what the brokers' admin API says, and ``admin`` how it is asked
- ``client``, ``client_logs``, ``refusals``: pulsar-client, its log, its result codes
- ``credentials``, ``limits``: how to get in, and how long to wait; ``opening``: all of that by a configuration
"""

from .credentials import TlsOptions, TokenSource, token_from_environment, token_from_file
from .limits import PulsarLimits
from .log import PulsarLog
from .namespace_log import PulsarNamespaceLog

__all__ = ["PulsarLimits", "PulsarLog", "PulsarNamespaceLog", "TlsOptions", "TokenSource", "token_from_environment", "token_from_file"]
