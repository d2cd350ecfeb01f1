"""The audit of changes: ``topicpolicies-audit --help``.

``ingest`` copies the changes from the brokers' logs into an archive of Parquet files, each exactly once, before the brokers compact them
away. The other commands read the archive.

- ``archive``: the archive, and the stream that fills it.
- ``state``: documents as of a time. ``differences``, ``attribution``: which fields each event changed, and who made the change.
- ``drift``: how two states differ. ``declarations``: the documents that a file declares. ``churn``: topics that change too often, and
  fields that automations keep changing back.
- ``report``: a period as one page. ``session``: the Spark session. ``app``: the command line.

An audit shows what brokers apply: for each policy key, the last document in the log.
"""
