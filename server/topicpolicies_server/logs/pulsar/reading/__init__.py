"""Reading a change log: every event once, in order. Where that cannot be guaranteed, the log is lost and has to be opened again.

The *initial replay* is the reading of what the log contained when it was opened; with its end, the log has caught up.

- ``receiving``: takes messages from the client library's reader in log order, and divides the work into slices between which other tasks
  run
- ``continuity``: decides whether an entry was missed; a pure state machine
- ``continuity_requests``: sends the requests that ``continuity`` needs, to the broker and to the ledgers
- ``not_handed_over``: messages that the library did not hand over at earlier openings
- ``beginning``: decides whether an opening that knows a position may go on from there
- ``entries``: turns messages into entries of the log
- ``acknowledged``: keeps events that this process appended, so that they are not decoded again when they are read
- ``uncompacted``: reads entries that compaction erased and that still stand in the ledgers
- ``source``: the library's reader of a partition, and its replacements
- ``patience``: while nothing comes: when to open a new reader, and when to give up
- ``partition``: reads one partition, with the modules above
- ``following``: reads all partitions of a log that exists
- ``identity``: checks whether the log is still the one that was opened
- ``existence``: checks whether the log still exists, and where it ends now
- ``log_reader``: follows one log if it exists, and waits for its creation if it does not
"""
