"""WatchPolicies and WatchHistory: from a request (``requests``) to a stream of batches (``stream``).

Each namespace of a stream is a part: of WatchPolicies one with stages of its own (``part``, ``stages``), of WatchHistory one that copies
(``copying``). Its records wait in its ``outbox`` until the stream takes them; changes are taken directly from the hub's watcher when the
stream has room, and from the history if they have left the hub's ring. ``events`` serializes what is sent. ``authorizations`` checks
permissions while watches are open.
"""
