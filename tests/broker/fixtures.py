"""Fixtures and markers for tests that need a real broker.

If no broker can be started, such a test fails; it is never skipped.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from tests.broker import shared
from tests.broker.admin import Admin
from tests.broker.jars import LATEST
from tests.broker.pulsar_broker import Broker, OwnBroker

_STARTING_A_BROKER = frozenset({"broker", "broker_of", "make_broker"})
_TIMEOUT_S = 300

BrokerOf: TypeAlias = Callable[[str], Broker]
MakeBroker: TypeAlias = Callable[..., OwnBroker]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that need a broker, gives them enough time to start one, and skips what the brokers' release does not have.

    A test needs a broker if it has one of these fixtures, or the marker ``broker``.
    """
    for item in items:
        if _STARTING_A_BROKER.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.broker)
        if item.get_closest_marker("broker") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))
        lacking = item.get_closest_marker("not_in_4_0_0")
        if lacking and LATEST == "4.0.0":
            item.add_marker(pytest.mark.skip(reason=f"Pulsar 4.0.0 has no {lacking.args[0]}"))


@pytest.fixture(scope="session")
def broker_of(pytestconfig: pytest.Config) -> BrokerOf:
    """Returns the running broker of a version, shared by all tests of the run in all its processes: use namespaces of your own."""
    return pytestconfig.stash[shared.KEY].of


@pytest.fixture(scope="session")
def broker(broker_of: BrokerOf) -> Broker:
    """The running broker of the newest version, shared by all tests of the run."""
    return broker_of(LATEST)


@pytest.fixture
def make_broker() -> Iterator[MakeBroker]:
    """Makes brokers of the test's own, with the arguments of ``OwnBroker``. They are not started yet, and are closed after the test."""
    made: list[OwnBroker] = []

    def make(version: str = LATEST, **options: Any) -> OwnBroker:
        made.append(OwnBroker(version, **options))
        return made[-1]

    yield make
    for own in made:
        own.close()


@pytest.fixture(scope="session")
def admin(broker: Broker) -> Iterator[Admin]:
    """The admin API of the shared broker."""
    with broker.admin() as client:
        yield client


@pytest.fixture
def namespace(admin: Admin) -> str:
    """A new namespace on the shared broker, as ``tenant/namespace``, whose system topic will have no partitions."""
    return admin.create_namespace()


@pytest.fixture
def partitioned_namespace(admin: Admin) -> str:
    """A new namespace on the shared broker, as ``tenant/namespace``, whose system topic has three partitions."""
    made = admin.create_namespace()
    admin.partition_change_events(made, 3)
    return made
