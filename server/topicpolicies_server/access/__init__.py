"""Authentication and authorization: who calls, and which permissions a caller has in a namespace. This package knows no gRPC.

- ``caller``: who calls; ``identification``: finds that out
- ``grants``: what a caller may do; ``roles_file``: by a file; ``broker_roles``: as Pulsar's brokers decide
"""

from .caller import NOBODY, Caller, Way
from .permission import Granted, Permission

__all__ = ["NOBODY", "Caller", "Granted", "Permission", "Way"]
