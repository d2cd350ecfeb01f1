"""Metrics, in the format of Prometheus: the counts of ``namespaces/activity``, and the present state of the server."""

from .calls import CallCounts
from .collector import ServerCollector
from .endpoint import Endpoint
from .server import ServerSources

__all__ = ["CallCounts", "Endpoint", "ServerCollector", "ServerSources"]
