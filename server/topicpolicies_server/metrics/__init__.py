"""Metrics, in the format of Prometheus: the counts of ``namespaces/activity``, and the present state of the server."""

from .beside import Beside
from .calls import CallCounts
from .collector import ServerCollector
from .endpoint import Endpoint

__all__ = ["Beside", "CallCounts", "Endpoint", "ServerCollector"]
