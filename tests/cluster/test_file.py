"""A cluster file: the facts that it has, facts that are left out, and errors in it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.cluster.file import FileSource, parse
from topicpolicies_server.cluster.levels import NamespaceFacts, TopicFacts
from topicpolicies_server.files import Reloader

FULL = """
cluster = "us"
all_topics = true
[clusters]
us = []
eu = ["asia"]
[tenants]
acme = ["us", "eu"]
[broker]
maxMessageSize = 1000
installedEntryFilters = ["by-region"]
[namespaces."acme/orders"]
replication_clusters = ["us", "eu"]
max_producers_per_topic = 5
retention_policies = { retentionTimeInMinutes = 10, retentionSizeInMB = -1 }
publishMaxMessageRate = { us = { publishThrottlingRateInMsg = 7 }, eu = { publishThrottlingRateInMsg = 8 } }
properties = { a = "b" }
[topics."persistent://acme/orders/one"]
"""


def write(path: Path, text: str) -> None:
    """Writes another text, and changes the file's time."""
    path.write_text(text)
    os.utime(path, (1, 1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "cluster.toml"
    made.write_text(FULL)
    return made


async def test_a_file_answers_with_the_facts_that_brokers_would_have(path: Path) -> None:
    source = FileSource(path, Reloader())
    cluster = await source.cluster()
    assert cluster.name == source.name == "us"
    assert cluster.broker is not None
    assert (cluster.broker.max_message_size, cluster.broker.max_ensemble) == (1000, 5)
    assert cluster.broker.entry_filters == frozenset({"by-region"})
    assert await source.clusters() == {"us": frozenset(), "eu": frozenset({"asia"})}
    assert await source.tenant("acme") == frozenset({"us", "eu"})
    namespace = await source.namespace("acme/orders")
    assert namespace.properties == {"a": "b"}
    expected = TopicPolicies(replication_clusters=["eu", "us"], max_producer_per_topic=5)
    expected.retention_policies.retention_time_in_minutes, expected.retention_policies.retention_size_in_mb = 10, -1
    expected.publish_rate.publish_throttling_rate_in_msg = 7
    assert namespace.policies == expected
    assert await source.topic("persistent://acme/orders/one") == TopicFacts(True, {})
    assert await source.topic("persistent://acme/orders/two") == TopicFacts(False, {})


async def test_facts_that_a_file_leaves_out_are_unknown(path: Path) -> None:
    write(path, "")
    source = FileSource(path, Reloader())
    assert (await source.cluster()).name == ""
    assert (await source.cluster()).broker is None
    assert await source.clusters() is None
    assert await source.tenant("acme") is None
    assert await source.namespace("acme/orders") == NamespaceFacts(None, {})
    assert await source.topic("persistent://acme/orders/one") == TopicFacts(None, {})


async def test_a_file_is_read_again_when_it_changes(path: Path) -> None:
    reloader = Reloader(look_seconds=0.01)
    source = FileSource(path, reloader)
    reloader.start()
    assert (await source.cluster()).name == "us"
    write(path, "cluster = ")
    async with asyncio.timeout(20):
        while not reloader.problems:  # noqa: ASYNC110 (nothing signals it)
            await asyncio.sleep(0.01)
        assert (await source.cluster()).name == "us", "the former content stays in force"
        write(path, 'cluster = "eu"')
        while (await source.cluster()).name != "eu":  # noqa: ASYNC110 (as above)
            await asyncio.sleep(0.01)
    await reloader.close()


@pytest.mark.parametrize("text", ["cluster = ", None])
def test_a_missing_or_invalid_file_is_an_error(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        write(path, text)
    with pytest.raises(RuntimeError, match="can't be used as cluster file") as error:
        FileSource(path, Reloader())
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("cluster = 5", "cluster is not a text"),
        ("cluster = " + "[" * 100_000, "nested too deep"),
        ("clusters = 5", "clusters is not a table"),
        ("cluster_name = 'us'", "cluster_name"),
        ("[broker]\nmaxMessageSize = 'many'", "maxMessageSize can't be 'many'"),
        ("[broker]\nmaxProducersPerTopic = [5]", r"max_producer_per_topic can't be \[5\]"),
        ("[broker]\nmaxMesageSize = 5", "broker.maxMesageSize is an unknown key"),
        (
            "[namespaces.'a/b']\nmax_producer = 5\n[topics.'t']\np = 1",
            'namespaces."a/b".max_producer is .*; topics."t".p is an unknown key',
        ),
        ("[namespaces]\n'a/b' = 5", "something in it is of the wrong kind"),
        ("[namespaces.'a/b']\nmax_producers_per_topic = 'many'", "max_producer_per_topic can't be 'many'"),
    ],
)
def test_the_error_names_what_is_invalid_in_a_file(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse(text)
