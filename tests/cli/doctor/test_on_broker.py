"""The doctor with a broker that has tokens and authorization: it reports planted faults, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.configuration import Security
from tests.broker.credentials import TokenKey
from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.cli.conftest import Terminal
from tests.cli.doctor.test_planted_faults import bad, examined
from tests.cli.real_server import running
from topicpolicies import Client
from topicpolicies_server.config import PulsarLogConfig

pytestmark = [pytest.mark.broker]

NAMESPACE = "acme/orders"
TOPIC = f"persistent://{NAMESPACE}/scratch"
SIDECAR = "sidecar"


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    """A broker with tokens and authorization, whose superuser is the sidecar."""
    with (
        OwnBroker(security=Security(tokens=TokenKey()), settings={"superUserRoles": f"admin,{SIDECAR}"}) as broker,
        broker.admin() as admin,
    ):
        admin.call("PUT", "tenants/acme", {"adminRoles": ["owner"], "allowedClusters": ["standalone"]})
        admin.call("PUT", f"namespaces/{NAMESPACE}", {"replication_clusters": ["standalone"]})
        admin.create_topic(f"{NAMESPACE}/scratch")
        yield broker


def examining(broker: Broker, token: Path, *more: str) -> tuple[str, ...]:
    """Returns the arguments to examine a broker with a token."""
    return ("--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--pulsar-token-file", str(token), "--no-history", *more)


def token_of(broker: Broker, role: str, folder: Path) -> Path:
    path = folder / role
    path.write_text(broker.token(role) or "")
    return path


def test_nothing_fails_for_a_sidecar_without_faults_and_its_broker(secured: Broker, tmp_path: Path) -> None:
    token = token_of(secured, SIDECAR, tmp_path)
    log = PulsarLogConfig(service_url=secured.service_url, admin_url=secured.admin_url, token_file=token)
    with running(None, log=log) as address:
        looked_at = ("--server", address, "--namespace", NAMESPACE, "--scratch", TOPIC)
        first = examined(Terminal(address), *looked_at, *examining(secured, token))
        with Client(address) as client:
            client.update(TOPIC, max_producer_per_topic=5)
        again = examined(Terminal(address), *looked_at, *examining(secured, token))
    namespace = [f"{group} {NAMESPACE}" for group in ("broker.namespace", "server.namespace")]
    for found in (first, again):
        assert bad(found) == set(), found
        names = {name for name, check in found.items() if check["level"] == "ok"}
        assert names >= {"broker.service", "broker.admin", "token.accepted", "broker.policies", "scratch.change", *namespace}


@pytest.mark.parametrize("role", ["owner", "stranger"])
def test_a_role_that_is_not_an_admin_of_the_tenant_is_reported(secured: Broker, tmp_path: Path, role: str) -> None:
    arguments = examining(secured, token_of(secured, role, tmp_path), "--pre", "--namespace", NAMESPACE)
    found = examined(Terminal("127.0.0.1:1"), *arguments)
    assert found["broker.policies"]["level"] == "warning"
    assert (f"broker.namespace {NAMESPACE}" in bad(found)) == (role == "stranger")


def test_a_token_signed_with_another_key_and_a_missing_namespace_are_found(secured: Broker, tmp_path: Path) -> None:
    forged = tmp_path / "forged"
    forged.write_text(TokenKey().token(SIDECAR))
    found = examined(Terminal("127.0.0.1:1"), *examining(secured, forged, "--pre"))
    assert bad(found) == {"token.accepted"}
    token = token_of(secured, SIDECAR, tmp_path)
    missing = examined(Terminal("127.0.0.1:1"), *examining(secured, token, "--pre", "--namespace", "acme/none"))
    assert bad(missing) == {"broker.namespace acme/none"}
    assert "namespaces create acme/none" in missing["broker.namespace acme/none"]["remedy"]
