"""A query that has nothing to read has no rows, and asks the brokers for nothing that can't exist."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, Filter, In

from topicpolicies_spark import NAME
from topicpolicies_spark.options import OptionError, read_options
from topicpolicies_spark.source import PushingReader

from .admin_api import admin_api

ANSWERS = {"tenants": ["acme"], "namespaces/acme": []}
NAMESPACE = ("namespace",)


@pytest.mark.parametrize(
    "filters",
    [
        [EqualTo(NAMESPACE, "acme")],
        [EqualTo(NAMESPACE, "")],
        [EqualTo(NAMESPACE, "acme/a/b")],
        [In(NAMESPACE, ("acme/one", "acme/two")), EqualTo(NAMESPACE, "acme/three")],
    ],
    ids=["a tenant", "empty", "three parts", "contradiction"],
)
def test_filters_that_no_namespace_matches_make_no_request(filters: list[Filter]) -> None:
    with admin_api(ANSWERS) as broker:
        reader = PushingReader(read_options({"serviceUrl": "pulsar://broker:6650", "adminUrl": broker.url}))
        assert list(reader.pushFilters(filters)) == []
        assert reader.partitions() == []
        assert broker.asked == []


@pytest.mark.parametrize("name", ["acme", "acme/", "/orders", "acme/a/b"])
def test_a_namespace_is_a_tenant_and_a_name(name: str) -> None:
    with pytest.raises(OptionError, match="is not a namespace"):
        read_options({"address": "127.0.0.1:6680", "namespaces": name})


def test_an_empty_list_of_namespaces_does_not_name_the_namespaces_of_a_history() -> None:
    with pytest.raises(OptionError, match="namespaces is needed"):
        read_options({"address": "127.0.0.1:6680", "namespaces": " , "})


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_batch_query_of_a_cluster_without_change_logs_has_no_rows(spark: SparkSession) -> None:
    with admin_api(ANSWERS) as broker:
        for given in ({"serviceUrl": "pulsar://127.0.0.1:1"}, {"address": "127.0.0.1:1"}):
            assert spark.read.format(NAME).options(adminUrl=broker.url, **given).load().collect() == []
