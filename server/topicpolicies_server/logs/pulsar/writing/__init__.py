"""Writing a change log.

- ``partition``: appends events to one partition, in order, and reports an outcome for each
- ``leading``: leadership, for a log that has one writer at a time
"""
