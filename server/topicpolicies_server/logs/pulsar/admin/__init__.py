"""The client of the brokers' admin API.

- ``api``: sends requests and reads their answers
- ``topics``: requests about a change log's topic and its schemas; ``facts``: about the cluster
"""

from .api import Admin, admin_api

__all__ = ["Admin", "admin_api"]
