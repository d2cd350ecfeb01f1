"""Who calls, and what he may do: principals, and the permissions of each in a namespace. It knows no gRPC.

- ``caller``: who calls; ``authority``: what decides
- ``roles_file``: decides by a file; ``broker_roles``: as Pulsar's brokers do; ``deciding``: which of them
"""

from .authority import Authority, Permission
from .caller import NOBODY, Caller, Way

__all__ = ["NOBODY", "Authority", "Caller", "Permission", "Way"]
