"""WatchPolicies: from a request (``requests``) to a stream of batches (``stream``).

Each namespace of a stream is a ``part`` with stages of its own (``stages``). Its records wait in its ``outbox`` until the stream takes
them; changes are taken directly from the hub's watcher (``taking``) when the stream has room. Changes that have left the hub's ring of
recent changes come from the history (``recalling``). ``events`` serializes what is sent, ``serializing`` changes once for all watchers that
take the same. ``authorizations`` rechecks permissions while watches are open, ``bookmarks`` is the timer of all streams, ``status`` is the
state of a namespace as watchers see it, ``resources`` is what all watches of a server share.
"""
