"""The fold: what each event of a change log does to the head of its policy key. A pure function of the log.

- ``keystate``: the fold's state of one policy key
- ``operation``: applies a sidecar's operation, or the change inferred from a broker's event, to a head
- ``inference``: infers which setting a broker's document changed
- ``overlap``: the same inference for brokers that change their cached documents in place
- ``joining``: heads of keys whose history was not read from the beginning, and which writer is believed about them
- ``fold``: folds one event of any kind, using the modules above
- ``recent``: the requests applied lately in a namespace, many more than its events carry
"""
