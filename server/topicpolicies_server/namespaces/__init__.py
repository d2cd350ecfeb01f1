"""Namespaces: the life of each, and the only place that awaits core and log.

- ``registry``: all namespaces of a server
- ``common``: what they have in common
- ``capacity``: how much they may keep in memory together
- ``namespace``: one namespace: wires its parts, and is what callers use
- ``life``: its state machine
- ``loading``: how its log is opened and read
- ``starting_point``: where an opening begins to read
- ``retrying``: when a failed attempt to load is repeated
- ``load_failures``: failures to load, each logged once
- ``follower``: one opening of its log, folded into a view
- ``listeners``: the interfaces to which a follower reports
- ``reports``: passes what the log reports on to the other parts
- ``serving``: what watchers get when another view begins to answer
- ``updates``: requests, from their arrival to their answers
- ``gathering``: under load, requests are let in together
- ``refusing``: why all changes are refused at once
- ``deadlines``: when requests expire
- ``stages``: how long changes take
- ``progress``: how far the view has come: who waits for a position, and as of when it is complete
- ``repairs``: publishes the repairs, which make brokers show the heads
- ``repair_queue``: bounds the rate of all repairs
- ``rate``: a rate limit that all namespaces share
- ``usage``: what uses a namespace
- ``activity``: what happens: counters, doubtful events, repairs
- ``figures``: what operators see of a namespace
- ``wording``: documents and events in words
"""
