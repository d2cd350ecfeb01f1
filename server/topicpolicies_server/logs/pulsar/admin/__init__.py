"""The client of the brokers' admin API.

- ``api``: sends requests; ``connections``: over which, and how many at a time; ``answer``: reads their answers
- ``topics``: requests about a change log's topic; ``schemas``: about its schemas; ``facts``: about the cluster
"""

from .api import Admin

__all__ = ["Admin"]
