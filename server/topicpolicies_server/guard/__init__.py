"""The guard: heals namespaces whose topic policies are changed without the sidecar.

Brokers older than PIP-428 undo each other's changes and their own: two calls of the admin API on one topic are computed from the same
document, and the later event puts back what the earlier one changed. The fold finds out what each of them meant, and a repair restates it.
All that takes is a namespace that is loaded; so the guard keeps all namespaces loaded that match its patterns and that brokers tell of
(``guard``), and logs what it heals. Beside brokers that undo nothing it writes nothing. It runs in a server, or as a service of its own
(``service``).
"""

from .guard import Guard, tell_of_healing

__all__ = ["Guard", "tell_of_healing"]
