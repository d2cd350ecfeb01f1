"""A broker with the plug-in authenticates with a token, whose role may change, watch and see secrets."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.admin import Admin, AdminError
from tests.promises.api import Refused
from tests.promises.blocking import BlockingApi
from tests.promises.documents import OFFLOAD
from tests.promises.plugin.pair import KEY, SHOW_SECRETS, Pair

pytestmark = pytest.mark.broker

PATIENCE = 60.0
ROLES = """
[[grants]]
roles = ["brokers"]
namespaces = ["*"]
permissions = [{broker}]

[[grants]]
roles = ["reader"]
namespaces = ["*"]
permissions = ["read"]
"""


@pytest.fixture
def roles(tmp_path: Path) -> Path:
    """The sidecar's authorization file."""
    path = tmp_path / "roles.toml"
    path.write_text(ROLES.format(broker='"change", "watch", "secrets"'))
    return path


@pytest.fixture
def pair(pair: Pair, roles: Path, tmp_path: Path) -> Iterator[Pair]:
    """The broker and its sidecar, which authenticates its callers during the test."""
    key, usual = tmp_path / "secret.key", pair.sidecar.options
    key.write_bytes(KEY.secret)
    options = ["--authentication-providers", "token", "--token-secret-key", str(key), "--authorization", str(roles)]
    pair.sidecar.kill()
    pair.sidecar.options = [*(each for each in usual if each != SHOW_SECRETS), *options]
    try:
        pair.start_sidecar()
        yield pair
    finally:
        pair.sidecar.kill()
        pair.sidecar.options = usual
        pair.start_sidecar()


def shown(pair: Pair, topic: str, role: str) -> str:
    """Returns the topic's secret as the sidecar shows it to a role, or the status of the refusal."""
    with BlockingApi(pair.sidecar.address, metadata=(("authorization", f"Bearer {KEY.token(role)}"),)) as api:
        try:
            document = api.get(f"persistent://{topic}")
        except Refused as error:
            return error.code
    assert document.policies is not None
    return document.policies.offload_policies.s3_managed_ledger_offload_credential_secret


def secret(admin: Admin, topic: str) -> str | None:
    """Returns the topic's secret as the broker has it."""
    found = admin.call("GET", f"persistent/{topic}/offloadPolicies")
    return None if found is None else found.get("s3ManagedLedgerOffloadCredentialSecret")


def test_a_broker_with_the_permission_sees_secrets_and_keeps_them(pair: Pair, roles: Path) -> None:
    with pair.admin as admin:
        topic = f"{admin.create_namespace('permitted')}/topic"
        admin.create_topic(topic)
        admin.call("POST", f"persistent/{topic}/offloadPolicies", OFFLOAD)
        assert secret(admin, topic) == "hush"
        assert [shown(pair, topic, role) for role in ("brokers", "stranger")] == ["hush", "PERMISSION_DENIED"]
        assert "hush" not in shown(pair, topic, "reader") != ""
        roles.write_text(ROLES.format(broker='"watch", "secrets"'))
        over = time.monotonic() + PATIENCE
        for value in itertools.count(1):
            try:
                admin.call("POST", f"persistent/{topic}/maxProducers", value)
            except AdminError as error:
                assert "change" in error.reason and "brokers" in error.reason
                break
            assert time.monotonic() < over, "the broker may still change policies"
            time.sleep(0.2)
        assert secret(admin, topic) == "hush", "the broker still has the secret"
