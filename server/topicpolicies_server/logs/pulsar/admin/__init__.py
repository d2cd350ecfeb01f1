"""What the brokers' admin API says.

- ``api``: how it is asked; ``line``: how much at a time; ``answer``: what comes of that
- ``topics``: of a change log's topic; ``schemas``: of its schemas; ``facts``: of the cluster
"""

from .api import Admin

__all__ = ["Admin"]
