"""Authentication and authorization: who calls, and which permissions a caller has in a namespace. This package knows no gRPC.

- ``caller``: who calls; ``authority``: what decides about permissions
- ``roles_file``: decides by a file; ``broker_roles``: decides as Pulsar's brokers do; ``deciding``: chooses one of them
"""

from .authority import Authority, Permission
from .caller import NOBODY, Caller, Way

__all__ = ["NOBODY", "Authority", "Caller", "Permission", "Way"]
