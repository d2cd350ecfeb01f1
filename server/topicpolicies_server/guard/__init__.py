"""The guard: heals namespaces in which nobody calls the sidecar.

Brokers older than PIP-428 undo each other's changes and their own: two calls of the admin API on one topic are computed from the same
document, and the later event puts back what the earlier one changed. The fold tells what each of them meant, and a repair restates it. All
that takes is a namespace that is loaded; so the guard keeps namespaces loaded (``guard``), all that match its ``patterns``, and tells of
what it heals (``healing``). Which there are it finds out from the brokers (``discovery``): what to ask next (``agenda``), how fast
(``pace``), and what the answers mean (``findings``). Beside brokers that undo nothing it writes nothing.
"""

from .guard import Guard
from .healing import tell_of_healing

__all__ = ["Guard", "tell_of_healing"]
