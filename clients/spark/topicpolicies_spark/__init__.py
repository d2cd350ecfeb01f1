"""Topic policies in Spark: the data source ``topic_policy_changes``, batch and streaming, over brokers' ``__change_events``.

    from topicpolicies_spark import register

    register(spark)
    spark.read.format("topic_policy_changes").option("serviceUrl", ...).option("adminUrl", ...).option("tenants", "acme").load()
    spark.readStream.format("topic_policy_changes")...

- ``options``: what can be asked for. ``source``: the data source as Spark sees it.
- ``brokers``: what the admin API says of the logs. ``offsets``: how far a stream is. ``admission``: how much one batch takes.
- ``sidecars``, ``copying``, ``history``, ``recorded``: a sidecar's history, in batch and as a stream.
- ``reading``: one range of one log. ``rows``, ``documents``: its events as rows.
- ``plots``: SVG. ``audit``: what people ask of the changes, with a command line of its own.

Every executor needs the package with its extra: ``pip install 'topicpolicies[spark]'``, and connections to the brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "topic_policy_changes"
"""The data source's name."""

__all__ = ["NAME", "register"]


def register(spark: SparkSession) -> None:
    """Makes the data source known to a session, and lets it take filters from batch queries that have the option ``pushFilters``."""
    from .source import TopicPolicyChanges  # noqa: PLC0415 - workers that only read need no session

    spark.dataSource.register(TopicPolicyChanges)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
