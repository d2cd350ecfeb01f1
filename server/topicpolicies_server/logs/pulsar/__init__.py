"""Pulsar's own change logs: the ``__change_events`` topic of each namespace.

- ``log``: the logs of all namespaces of a cluster
- ``namespace_log``: one of them, opened
- ``closing``: how it ends
- ``reading``: everything, once, in order
- ``writing``: events in the order of their appends
- ``health_checks``: what is looked at from time to time
- ``upgrades``: what the cluster says of itself, asked again
- ``access``: what these share
- ``ids``: positions
- ``limits``: how long to wait, and for how much
- ``contacts``: what is known of the connections
- ``reach``: whether the cluster can be reached
- ``admin``: the brokers' admin API
- ``client``: pulsar-client
- ``credentials``: who the sidecar is, and how it checks who brokers are
- ``oauth2``: tokens from an issuer
- ``opening``: all of that by a configuration
"""

from .credentials import TlsOptions, TokenSource, token_from_environment, token_from_file
from .limits import PulsarLimits
from .log import PulsarLog
from .namespace_log import PulsarNamespaceLog

__all__ = ["PulsarLimits", "PulsarLog", "PulsarNamespaceLog", "TlsOptions", "TokenSource", "token_from_environment", "token_from_file"]
