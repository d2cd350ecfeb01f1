"""WatchPolicies: from a request (``requests``) to a stream of batches (``stream``).

Each namespace of a stream is a ``part`` with stages of its own (``stages``). Its records wait in its ``outbox`` until the stream takes
them; changes are taken directly from the hub's watcher (``taking``) when the stream has room. Changes that have left the hub's ring of
recent changes come from the history (``recalling``); in the mode ENTRIES everything does (``copying``). ``authorizations`` rechecks
permissions while watches are open, ``bookmarks`` is the timer of all streams, ``serializing`` serializes changes once for all watchers that
take the same, ``status`` is the state of a namespace as watchers see it, ``resources`` is what all watches of a server share.
"""
