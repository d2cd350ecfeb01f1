"""What all watches of a server share."""

from __future__ import annotations

from typing import NamedTuple

from ...cluster.watched_namespaces import WatchedNamespaces
from ...namespaces.registry import Registry
from .. import answers


class WatchResources(NamedTuple):
    """What all watches of a server share."""

    registry: Registry
    wire: answers.Wire
    """Serializes documents, unless an authorization decides that."""
    watched_namespaces: WatchedNamespaces | None = None
    """Says which topics have their policies disabled, and notifies parts when that changes; None: no topic has."""
