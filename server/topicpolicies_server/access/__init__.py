"""Who calls, and what he may do: principals, and the permissions of each in a namespace. It knows no gRPC."""

from .authority import Authority, Permission
from .caller import NOBODY, Caller, Way

__all__ = ["NOBODY", "Authority", "Caller", "Permission", "Way"]
