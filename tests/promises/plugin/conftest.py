"""The broker with the plug-in that the tests of this folder share; each process of a run has its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pulsar
import pytest

from tests.broker.admin import Admin
from tests.promises.plugin.pair import KEY, Pair

BARE = {
    "forceDeleteNamespaceAllowed": "true",
    "topicPoliciesSidecarLoadTimeoutSeconds": "30",
    "topicPoliciesSidecarRequestTimeoutSeconds": "20",
}
"""The plug-in's default timeouts: the first topic of a broker that has just started is slow, and its times are not measured."""


@pytest.fixture(scope="package")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A broker with the plug-in, and a sidecar on the embedded log; each test leaves both running."""
    directory = tmp_path_factory.mktemp("plugin")
    token = directory / "token"
    token.write_text(KEY.token("brokers"))
    with closing(Pair(directory, settings={"topicPoliciesSidecarTokenFilePath": str(token)})) as made:
        made.start()
        yield made


@pytest.fixture(scope="package")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A broker without system topics, whose namespaces may be deleted with their topics, and a sidecar whose log is in it."""
    with closing(Pair(tmp_path_factory.mktemp("bare"), log_in_pulsar=True, settings=BARE)) as made:
        made.start()
        yield made


@pytest.fixture
def own(pair: Pair) -> Iterator[Admin]:
    """The admin API of the broker with the plug-in."""
    with pair.admin as client:
        yield client


@pytest.fixture
def topic(own: Admin) -> str:
    """A new topic in a new namespace on that broker, as ``tenant/namespace/topic``."""
    made = f"{own.create_namespace('plugin')}/topic"
    own.create_topic(made)
    return made


@pytest.fixture
def client(pair: Pair) -> Iterator[pulsar.Client]:
    """A Pulsar client of that broker."""
    made = pulsar.Client(pair.broker.service_url, operation_timeout_seconds=60, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield made
    made.close()
