"""The load harness: Spark's executors call a service, every call becomes a record, and Spark judges the records.

    python -m bench.harness --help

- ``scenarios``: the kinds of load. ``traffic``: which request comes next. ``plan``: the instructions for an executor.
- ``calls``, ``batches``, ``watching``: requests, batches and watches on one event loop. ``worker``: all of them together.
  ``sidecar_history``: every change as the sidecar's history has it, if a watch may have missed some.
- ``records``: what is recorded, in Arrow and Parquet. ``progress``: how far everybody is.
- ``targets``: the services that are measured. ``limits``: what the machine could do at best, measured in the same run.
- ``session``, ``run``: Spark, and one run from its beginning to its end.
- ``histories``, ``proof``: records as the histories that ``tests.validators`` judge, shard by shard. ``figures``: throughput and latencies.
- ``summary``, ``page``: the report as text and as HTML, and as JSON for programs.
"""
