"""Pulsar's own change logs: the ``__change_events`` topic of each namespace.

- ``log``: the logs of all namespaces of a cluster
- ``namespace_log``: one open log
- ``closing``: reports the last outcomes and closes the connections when a log ends
- ``reading``: every event once, in order
- ``writing``: events in the order of their appends, each with an outcome
- ``health_checks``: periodic checks of the open logs
- ``upgrades``: asks the cluster for its facts again, because brokers are upgraded
- ``access``: what the modules of one log share
- ``ids``: message ids as positions
- ``limits``: timeouts and bounds
- ``broker_connections``: which connections there are
- ``reach``: whether the cluster can be reached
- ``admin``: the client of the brokers' admin API
- ``client``: the boundary to pulsar-client
- ``credentials``: how the sidecar authenticates, and how it verifies brokers
- ``oauth2``: tokens from an OAuth 2.0 issuer
- ``opening``: creates all of these from a configuration
"""

from .credentials import TlsOptions, TokenSource, token_from_environment, token_from_file
from .limits import PulsarLimits
from .log import PulsarLog
from .namespace_log import PulsarNamespaceLog

__all__ = ["PulsarLimits", "PulsarLog", "PulsarNamespaceLog", "TlsOptions", "TokenSource", "token_from_environment", "token_from_file"]
