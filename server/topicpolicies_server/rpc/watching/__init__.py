"""WatchPolicies and WatchHistory: from a request (``requests``) to a stream of batches (``stream``).

Each namespace of a stream is a part: of WatchPolicies a ``policy_part``, which takes changes from the hub's watcher when the stream has
room, and from the history if they have left the hub's ring; of WatchHistory a ``history_part``.
"""
