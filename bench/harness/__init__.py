"""The load harness: Spark's executors call a sidecar, every call becomes a record, and Spark judges the records.

    python -m bench.harness --help

- ``scenarios``: the kinds of load, and the instructions for the workers.
- ``calls``, ``watching``: calls and watches on one event loop. ``worker``: all of them together, as fast as possible.
- ``records``: what is recorded, in Arrow and Parquet.
- ``session``, ``run``: Spark, and one run from its beginning to its report.
- ``histories``, ``proof``: records as the histories that ``tests.validators`` judge, shard by shard. ``figures``: throughput and latencies.
"""
