"""A change that a sidecar forwards is the caller's: the leader checks the caller's permission, and records the caller as the actor."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import grpc
import pytest

from tests.access.signing import SECRET, token
from tests.broker.admin import Admin
from tests.broker.pulsar_broker import Broker
from tests.client.certificates import Authority
from tests.promises.api import Api, refusal
from tests.promises.server_process import ServerProcess

from .test_beside_brokers import IMPATIENT, a_topic, in_time

pytestmark = pytest.mark.broker
BOTH = '[[grants]]\nroles = ["sidecar"]\nnamespaces = ["*/*"]\npermissions = ["change", "history"]\n'
ANN = '[[grants]]\nroles = ["ann"]\nnamespaces = ["*/*"]\npermissions = ["change", "history"]\n'


def of(role: str) -> tuple[tuple[str, str], ...]:
    """Returns the metadata of a role's calls."""
    return (("authorization", f"Bearer {token(sub=role)}"),)


@pytest.mark.parametrize("by", ["token", "certificate", "nothing"])
async def test_the_leader_knows_for_whom_a_change_was_forwarded(broker: Broker, admin: Admin, tmp_path: Path, by: str) -> None:
    _, topic = await asyncio.to_thread(a_topic, admin)
    full = f"persistent://{topic}"
    authority = Authority(tmp_path, "authority")
    sidecar, anybody = authority.identity("sidecar", "127.0.0.1"), authority.identity("anybody", "127.0.0.1")
    (tmp_path / "secret.key").write_bytes(SECRET)
    (tmp_path / "peer-token").write_text(token(sub="sidecar"))
    options = ["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--writer", "exclusive", "--proxy-roles", "sidecar"]
    options += ["--authentication-providers", "token", "--token-secret-key", str(tmp_path / "secret.key")]
    options += ["--tls-certificate", str(sidecar.certificate), "--tls-key", str(sidecar.key), *IMPATIENT]
    if by == "certificate":
        options += ["--authentication-providers", "certificate", "--tls-client-ca", str(authority.certificate)]
    else:
        options += ["--peer-trust-certs", str(authority.certificate)]
    options += ["--peer-token-file", str(tmp_path / "peer-token")] if by == "token" else []
    trusted, key, certificate = authority.certificate.read_bytes(), anybody.key.read_bytes(), anybody.certificate.read_bytes()
    credentials = grpc.ssl_channel_credentials(trusted, key, certificate)
    async with contextlib.AsyncExitStack() as stack:
        servers, apis = [], []
        for name, grants in (("leader", BOTH + ANN), ("follower", BOTH + ANN + ANN.replace("ann", "bob"))):
            (tmp_path / f"{name}.toml").write_text(grants)
            its = ["--authorization", str(tmp_path / f"{name}.toml"), "--history", str(tmp_path / f"{name}-history.db")]
            server = ServerProcess([*options, *its], tmp_path / f"{name}.log", credentials=credentials)
            stack.callback(server.kill)
            await server.start()
            servers.append(server)
            apis.append(await stack.enter_async_context(Api(server.address, credentials, of("ann"))))
        leader, follower = apis
        bob = await stack.enter_async_context(Api(servers[1].address, credentials, of("bob")))
        written = await in_time(leader, full, 1)
        await follower.get(full, at_least_version=written.version)
        if by == "nothing":
            assert (await refusal(follower.update(full, {"max_producer_per_topic": 2}))).reason == "NOT_LEADER"
            assert "refuses the changes that this sidecar forwards" in servers[1].printed
            return
        await follower.update(full, {"max_producer_per_topic": 2}, actor="annie", reason="why")
        last = (await leader.history(full))[-1]
        assert (last.actor, last.actor_standing, last.principal) == ("ann", "AUTHENTICATED", "sidecar")
        assert (last.claimed_actor, last.reason) == ("annie", "why")
        refused = await refusal(bob.update(full, {"max_producer_per_topic": 3}))
        assert (refused.code, refused.reason) == ("PERMISSION_DENIED", "PERMISSION_DENIED"), "the leader does not know bob"
