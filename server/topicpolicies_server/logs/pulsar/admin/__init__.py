"""The client of the brokers' admin API.

- ``api``: sends requests; ``answer``: reads their answers
- ``topics``: requests about a change log's topic and its schemas; ``facts``: about the cluster
"""

from .api import Admin

__all__ = ["Admin"]
