"""Writing a change log.

- ``partition``: one partition, events in the order of their appends
"""
