"""Reading a change log: everything, once, in order, or else the log is opened anew.

- ``receiving``: what the library has received, in order
- ``continuity``: whether something is missing, as a pure state machine; ``questions``: what that asks, of the broker and the ledgers
- ``not_handed_over``: what was missing at earlier openings
- ``entries``: the messages as entries of the log; ``acknowledged``: those of ours, which need not be decoded again
- ``uncompacted``: what compaction took away and still stands in the ledgers
- ``source``: the library's reader of a partition, and the next one in its place; ``quiet``: when that is to be opened, or given up
- ``partition``: one partition, with what those above know; ``following``: all partitions of a log
- ``coming``: one log, followed if it exists, and looked for if it does not
- ``ends``: where the log ends now; ``existence``: whether it is still there
"""
