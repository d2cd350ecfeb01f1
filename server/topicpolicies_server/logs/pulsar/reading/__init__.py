"""Reading a change log: everything, once, in order, or else the log is opened anew.

- ``receiving``: what the library has received, in order; and slices of it, between which others have their turns
- ``continuity``: whether something is missing, as a pure state machine
- ``questions``: what that asks, of the broker and the ledgers
- ``not_handed_over``: what was missing at earlier openings
- ``beginning``: with what an opening goes on that knows a place
- ``entries``: the messages as entries of the log
- ``acknowledged``: those of ours, which need not be decoded again
- ``uncompacted``: what compaction took away and still stands in the ledgers
- ``source``: the library's reader of a partition, and the next one in its place
- ``patience``: when nothing comes: when that is opened, and when it is given up
- ``partition``: one partition, with what those above know
- ``following``: all partitions of a log
- ``existence``: whether the log is still there, and where it ends now
- ``whole_log``: one log, followed if it exists, and looked for if it does not
"""
