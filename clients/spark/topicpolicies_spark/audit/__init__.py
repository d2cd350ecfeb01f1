"""The audit of changes: ``topicpolicies-audit --help``.

``ingest`` copies the history that a sidecar keeps into an archive of Parquet files, each event exactly once. The other commands read it.

- ``archive``: the archive, the stream that fills it, and views of it for SQL. ``compact``: one file a day.
- ``changes``: who changed what. ``state``: documents as of a time. ``churn``: topics that change too often, and fields that automations
  keep changing back.
- ``drift``: how two states differ. ``declarations``: the documents that a file declares.
- ``report``: a period as one page. ``session``: the Spark session. ``sidecar``: one for brokers beside which none runs. ``app``: the
  command line.
"""
