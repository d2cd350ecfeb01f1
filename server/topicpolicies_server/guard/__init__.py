"""The guard: heals namespaces whose topic policies are changed without the sidecar.

Brokers older than PIP-428 undo each other's changes and their own: two calls of the admin API on one topic are computed from the same
document, and the later event puts back what the earlier one changed. The fold finds out what each of them meant, and a repair restates it.
All that takes is a namespace that is loaded; so the guard keeps all namespaces loaded (``guard``) that match its ``patterns``, and logs
what it heals (``healing``). It finds out from the brokers which namespaces there are (``discovery``): what to ask next (``agenda``), how
fast (``pace``), and what the answers mean (``findings``). Beside brokers that undo nothing it writes nothing.
"""

from .guard import Guard
from .healing import tell_of_healing

__all__ = ["Guard", "tell_of_healing"]
