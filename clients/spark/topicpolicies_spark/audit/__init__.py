"""What people ask of the changes: ``topicpolicies-audit --help``.

The changes lie in Parquet, where ``ingest`` puts them, each exactly once, while they are still to be had: brokers forget them.

- ``archive``: the directory, and the stream into it.
- ``state``: documents as of a time. ``differences``, ``attribution``: what each event changed, and who did it.
- ``drift``: how two states differ. ``churn``: topics that change too often, and automations that fight.
- ``report``: a period as one page. ``session``: Spark. ``app``: the command line.

An audit shows what brokers apply: the documents as they stand in the log, the last one of each key.
"""
