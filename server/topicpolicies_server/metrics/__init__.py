"""Metrics, in the format of Prometheus: what ``namespaces/activity`` counts, and what there is at the moment."""

from .collector import ServerCollector
from .endpoint import Endpoint

__all__ = ["Endpoint", "ServerCollector"]
