"""Metrics, in the format of Prometheus: what ``namespaces/activity`` counts, and what there is at the moment."""

from .beside import Beside
from .calls import CallCounts
from .collector import ServerCollector
from .endpoint import Endpoint

__all__ = ["Beside", "CallCounts", "Endpoint", "ServerCollector"]
