"""Topic policies in Spark: the data source ``topic_policy_changes``, batch and streaming, over the brokers' ``__change_events``.

    from topicpolicies_spark import register

    register(spark)
    spark.read.format("topic_policy_changes").option("serviceUrl", ...).option("adminUrl", ...).option("tenants", "acme").load()
    spark.readStream.format("topic_policy_changes")...

- ``options``: the options of the data source. ``source``: the classes that Spark calls.
- ``brokers``: finds the logs, their ends and their ledgers through the admin API. ``offsets``: how far a stream has read the logs.
  ``admission``: where the next batch of a stream ends.
- ``reading``: reads one range of one log. ``rows``, ``documents``: events as rows, and documents as nested values.
- ``sidecars``, ``copying``, ``history``, ``history_stream``: reads a sidecar's history instead, in batch and as a stream.
- ``plots``: plots in SVG. ``audit``: reports about the changes, with a command line of its own.

Every executor needs the package with its extra, ``pip install 'topicpolicies[spark]'``, and must reach the brokers or the sidecar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "topic_policy_changes"
"""The name of the data source, for ``format``."""

__all__ = ["NAME", "register"]


def register(spark: SparkSession) -> None:
    """Registers the data source with a session, and enables filter pushdown in it, for batch queries with the option ``pushFilters``."""
    from .source import TopicPolicyChanges  # noqa: PLC0415 - workers that only read need no session

    spark.dataSource.register(TopicPolicyChanges)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
