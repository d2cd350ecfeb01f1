"""The client of the brokers' admin API.

- ``api``: sends requests; ``request_limit``: limits how many are in flight; ``answer``: reads their answers
- ``topics``: requests about a change log's topic; ``schemas``: about its schemas; ``facts``: about the cluster
"""

from .api import Admin

__all__ = ["Admin"]
