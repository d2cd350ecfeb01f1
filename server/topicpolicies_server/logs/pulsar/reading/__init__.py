"""Reading a change log: every event once, in order. Where that cannot be guaranteed, the log is lost and has to be opened again.

The *initial replay* is the reading of what the log contained when it was opened; with its end, the log has caught up.

- ``entries``: turns messages into entries of the log
- ``partition``: reads one partition, compacted at first and then as it was written, and finds out whether something was missed
- ``reader``: waits for the log's creation, reads all its partitions, and checks whether it is still the one that was opened
"""
