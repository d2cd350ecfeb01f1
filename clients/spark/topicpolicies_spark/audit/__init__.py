"""The audit of changes: ``topicpolicies-audit --help``.

``ingest`` copies the history that a sidecar keeps into an archive of Parquet files, each event exactly once. The other commands read it.

- ``archive``: the archive, the stream that fills it, and views of it for SQL. ``compact``: one file a day.
- ``questions``: who changed what, documents as of a time, how two states differ, what changes too often. ``declarations``: the documents
  that a file declares.
- ``report``: a period as one page. ``session``: the Spark session. ``sidecar``: one for brokers beside which none runs. ``app``: the
  command line.
"""

import sys
from importlib.util import find_spec

if find_spec("pyspark") is None:
    sys.exit("The audit needs Spark: pip install 'topicpolicies[spark]'")
