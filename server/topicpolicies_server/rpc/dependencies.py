"""What the methods of a server depend on. Each method is a function of these dependencies, its request and its call.

Every method that concerns a namespace follows the same order: read and validate the request, check what the caller may do in the namespace,
gather the cluster facts that the rules need, then call the namespace. So a caller without the permission learns nothing of a namespace, not
even whether it exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..access import Granted, Permission
from ..access.grants import Grants
from ..cluster.cluster import Cluster
from ..config import Limits
from ..core.chains.request import Request
from ..core.changes.constraints import Constraint
from ..namespaces.registry import Registry
from .forwarding import Forwarding
from .watching.stream import WatchStreams


@dataclass(kw_only=True, eq=False)
class Dependencies:
    """What the methods of a server depend on."""

    registry: Registry
    limits: Limits
    grants: Grants
    watches: WatchStreams
    cluster: Cluster | None = None
    """What is known of the cluster; None: nothing."""
    forwarding: Forwarding | None = None
    """Sends changes to leaders; None: logs have no leaders."""
    constraints_of: Callable[[str], Sequence[Constraint]] | None = None
    """Returns what changes of a topic, by its full name, may make of it; None: anything."""

    def constrain(self, request: Request, granted: Granted) -> None:
        """Gives a change the constraints of its topic, unless its caller may override them."""
        if self.constraints_of is not None and Permission.OVERRIDE not in granted:
            request.constraints = self.constraints_of(request.key.topic)
