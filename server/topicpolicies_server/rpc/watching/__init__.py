"""WatchPolicies: from a request (``requests``) to a stream of batches (``stream``).

Each namespace of a stream is a ``part`` with stages of its own (``stages``). Its records wait in its ``outbox`` until the stream takes
them; changes are taken directly from the hub's watcher when the stream has room, and from the history if they have left the hub's ring.
``events`` serializes what is sent. ``authorizations`` rechecks permissions while watches are open. ``copying`` is WatchHistory.
"""
