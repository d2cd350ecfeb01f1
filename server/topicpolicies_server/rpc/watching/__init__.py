"""WatchPolicies: from a request (``requests``) to a stream of batches (``stream``).

Each namespace of a stream is a ``part`` with stages of its own (``stages``). What it tells waits in its ``outbox`` until the stream takes
it; changes are taken straight from the hub's watcher (``taking``); what the ring has lost comes from the history (``recalling``), and in
the mode ENTRIES everything does (``copying``).
"""
