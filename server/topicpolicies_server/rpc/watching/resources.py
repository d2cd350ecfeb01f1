"""What all watches of a server share."""

from __future__ import annotations

from typing import NamedTuple

from ...cluster.disabled_watching import DisabledWatching
from ...namespaces.registry import Registry
from .. import answers


class WatchResources(NamedTuple):
    """What all watches of a server share."""

    registry: Registry
    wire: answers.Wire
    """Serializes documents, unless an authorization decides that."""
    disabled: DisabledWatching | None = None
    """Notifies parts of what is disabled by a property; None: nothing can be."""
