"""Pulsar's own change logs: the ``__change_events`` topic of each namespace.

- ``log``: the logs of all namespaces of a cluster, whether the cluster can be reached, and periodic checks
- ``namespace_log``: one open log; ``writer``: events in the order of their appends, each with an outcome
- ``reader``: every event of one partition once, in order, or else the log is lost; ``entries``: decoded
- ``admin``: the client of the brokers' admin API; ``topics``: requests about a log's topic and its schemas; ``facts``: about the cluster
- ``client``: the boundary to pulsar-client
- ``brokers``: what the modules of one log share; ``ids``: message ids as positions
- ``credentials``: how the sidecar authenticates, and how it verifies brokers
"""

from .brokers import PulsarLimits
from .credentials import TlsOptions, TokenSource, token_from_file
from .log import PulsarLog
from .namespace_log import PulsarNamespaceLog

__all__ = ["PulsarLimits", "PulsarLog", "PulsarNamespaceLog", "TlsOptions", "TokenSource", "token_from_file"]
