"""Writing a change log.

- ``partition``: one partition, events in the order of their appends
- ``leading``: a log that has one writer at a time
"""
