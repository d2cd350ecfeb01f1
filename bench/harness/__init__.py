"""The load harness: Spark's executors call a sidecar, every call becomes a record, and Spark judges the records.

    python -m bench.harness --help

- ``scenarios``: the kinds of load, and the instructions for the workers.
- ``calls``, ``watching``: calls and watches on one event loop. ``worker``: all of them together, as fast as possible or at a given rate.
- ``records``: what is recorded, in Arrow and Parquet.
- ``session``, ``run``: Spark, and one run from its beginning to its end.
- ``histories``, ``proof``: records as the histories that ``tests.validators`` judge, shard by shard. ``figures``: throughput and latencies.
- ``summary``, ``page``: what the report says, as text and as JSON, and the same as HTML with plots.
"""
