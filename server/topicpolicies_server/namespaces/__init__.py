"""Namespaces: the life of each, and the only place that opens, reads and appends to logs.

- ``registry``: all namespaces of a server
- ``common``: what they have in common, and how much they may keep in memory together
- ``namespace``: one namespace: loaded, and loaded anew when its log is lost; read and watched
- ``follower``: one opening of its log, folded into a view
- ``updates``: requests, from their arrival to their answers
- ``progress``: how far the view has come: who waits for a position, and as of when it is complete
- ``repairs``: publishes the repairs, which make brokers show the heads, at a bounded rate
- ``activity``: what happens: counters, how long changes take, documents and events in words
"""
