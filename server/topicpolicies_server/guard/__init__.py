"""The guard: heals namespaces in which nobody calls the sidecar.

Brokers older than PIP-428 undo each other's changes and their own: two calls of the admin API on one topic are computed from the same
document, and the later event puts back what the earlier one changed. The fold tells what each of them meant, and a repair restates it. All
that takes is a namespace that is loaded; so the guard keeps namespaces loaded (``guard``), all that match its ``patterns``, finds out from
the brokers which there are (``discovery``), and tells of what it heals (``healing``). Beside brokers that undo nothing it writes nothing.
"""

from .guard import Guard
from .healing import tell_of_healing

__all__ = ["Guard", "tell_of_healing"]
