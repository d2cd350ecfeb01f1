"""Authentication and authorization: who calls, and which permissions a caller has in a namespace. This package knows no gRPC.

- ``caller``: who calls, and the permissions; ``identification``: finds out who calls
- ``grants``: what a caller may do; ``roles_file``: by a file; ``broker_roles``: as Pulsar's brokers decide
"""

from .caller import NOBODY, NOTHING, Caller, Granted, Permission, Way

__all__ = ["NOBODY", "NOTHING", "Caller", "Granted", "Permission", "Way"]
