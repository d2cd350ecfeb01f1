"""Permissions from a broker with authorization: a role may do here what it may do through the broker's admin API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.broker.admin import Admin
from tests.broker.configuration import Security
from tests.broker.credentials import TokenKey
from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.plain_http import NO_TLS
from tests.promises.api import Api, Delete, Refused, Update
from tests.promises.server_process import ServerProcess
from topicpolicies.v1.policies_pb2 import TopicPolicies

pytestmark = pytest.mark.broker

NAMESPACE = "acme/orders"
TOPIC = f"persistent://{NAMESPACE}/one"
SIDECAR = "sidecar"
ROLES = ("reader", "owner", "stranger", "admin", "unheard-of", "gateway", SIDECAR)
PROXIES = ("gateway", "front")
"""``gateway`` may itself do what the tenant's admins may."""
CALLERS = ("", *ROLES, *(f"{proxy}>{role}" for proxy in PROXIES for role in ROLES), "gateway>front", "owner>admin", "stranger>owner")
MAY = {"owner", "admin", SIDECAR, "gateway>owner", "gateway>admin", f"gateway>{SIDECAR}"}
"""The callers that may change and read policies."""
PATH = f"persistent/{NAMESPACE}/one"
LIMIT = TopicPolicies(max_producer_per_topic=7)


async def watched(api: Api) -> None:
    """Watches until the namespace is complete."""
    async for _ in api.watch([NAMESPACE], until_synced=True):
        pass


async def batched(api: Api) -> None:
    """Makes a change in a batch."""
    (answer,) = await api.batch([Update(TOPIC, LIMIT)])
    if isinstance(answer, Refused):
        raise answer


CALLS: dict[str, tuple[Callable[[Api], Awaitable[Any]], tuple[str, str, object] | None]] = {
    "update": (lambda api: api.update(TOPIC, LIMIT), ("POST", f"{PATH}/maxProducers", 7)),
    "batch": (batched, ("POST", f"{PATH}/maxConsumers", 7)),
    "get": (lambda api: api.get(TOPIC), ("GET", f"{PATH}/maxProducers", None)),
    "effective": (lambda api: api.effective(TOPIC), ("GET", f"{PATH}/maxProducers?applied=true", None)),
    "list": (lambda api: api.page(NAMESPACE), ("GET", f"{PATH}/retention", None)),
    "history": (lambda api: api.history(TOPIC), None),
    "watch": (watched, None),
    "delete": (lambda api: api.send(Delete(TOPIC)), ("DELETE", f"{PATH}/maxProducers", None)),
}
"""The calls, and the corresponding request to the admin API, which has no history and no watches."""


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    """A broker with tokens, prepared."""
    settings = {"superUserRoles": f"admin,{SIDECAR}", "proxyRoles": "gateway,front"}
    with OwnBroker(security=Security(tokens=TokenKey()), settings=settings) as broker, broker.admin() as admin:
        prepare(admin)
        yield broker


def prepare(admin: Admin) -> None:
    """Makes two tenants, of which the admins of one are ``owner`` and ``gateway``, that of the other is ``stranger``, and a topic."""
    admin.call("PUT", "tenants/acme", {"adminRoles": ["owner", "gateway"], "allowedClusters": ["standalone"]})
    admin.call("PUT", "tenants/other", {"adminRoles": ["stranger"], "allowedClusters": ["standalone"]})
    admin.call("PUT", f"namespaces/{NAMESPACE}", {"replication_clusters": ["standalone"]})
    admin.call("POST", f"namespaces/{NAMESPACE}/permissions/reader", ["consume", "produce"])
    admin.create_topic(f"{NAMESPACE}/one")


@pytest.fixture
async def address(secured: Broker, tmp_path: Path) -> AsyncIterator[str]:
    """The address of a sidecar that takes its permissions from the broker."""
    key, token = tmp_path / "secret.key", tmp_path / "token"
    assert secured.security.tokens is not None
    key.write_bytes(secured.security.tokens.secret)
    token.write_text(secured.token(SIDECAR) or "")
    log = ["--pulsar", secured.service_url, "--admin-url", secured.admin_url, "--pulsar-token-file", str(token)]
    callers = ["--authentication-providers", "token", "--token-secret-key", str(key)]
    callers += [word for proxy in PROXIES for word in ("--proxy-roles", proxy)]
    permitted = ["--authorization-by-brokers", "--authorization-cache-seconds", "2", "--history", str(tmp_path / "history.db")]
    server = ServerProcess([*log, *callers, *permitted], tmp_path / "server.log")
    await server.start()
    yield server.address
    server.kill()


def metadata(broker: Broker, caller: str) -> list[tuple[str, str]]:
    """Returns what a caller sends: ``principal``, ``proxy>principal`` or nobody."""
    principal, _, original = caller.partition(">")
    sent = [("authorization", f"Bearer {broker.token(principal)}")] if principal else []
    return [*sent, ("topicpolicies-original-principal", original)] if original else sent


async def here(address: str, broker: Broker, caller: str) -> dict[str, bool]:
    """Returns which calls the sidecar permits to a caller."""
    found = {}
    async with Api(address, metadata=metadata(broker, caller)) as api:
        for name, (call, _) in CALLS.items():
            try:
                await call(api)
            except Refused as error:
                assert error.code in ("UNAUTHENTICATED", "PERMISSION_DENIED"), (caller, name, error)
                found[name] = False
            else:
                found[name] = True
    return found


def there(broker: Broker, caller: str) -> dict[str, bool]:
    """Returns which requests the admin API permits to a caller. Blocking."""
    found = {}
    names = {"authorization": "Authorization", "topicpolicies-original-principal": "X-Original-Principal"}
    headers = {names[name]: value for name, value in metadata(broker, caller)}
    with httpx.Client(base_url=f"{broker.admin_url}/admin/v2/", timeout=30, trust_env=False, verify=NO_TLS, headers=headers) as http:
        for name, (_, asked) in CALLS.items():
            if asked is not None:
                method, path, body = asked
                status = http.request(method, path, json=body).status_code
                assert status < 300 or status in (401, 403, 404), (caller, name, status)
                found[name] = status not in (401, 403)
    return found


async def test_the_brokers_permissions_hold(secured: Broker, address: str) -> None:
    found: dict[str, dict[str, bool]] = {}
    for caller in CALLERS:
        found[caller] = await here(address, secured, caller)
        theirs = await asyncio.to_thread(there, secured, caller)
        assert {name: found[caller][name] for name in theirs} == theirs, caller
    assert {caller for caller, may in found.items() if all(may.values())} == MAY
    assert not [caller for caller, may in found.items() if caller not in MAY and any(may.values())]


async def test_secrets_are_shown_to_superusers_only(secured: Broker, address: str) -> None:
    policies = TopicPolicies()
    offload = policies.offload_policies
    offload.managed_ledger_offload_driver, offload.managed_ledger_offload_bucket = "aws-s3", "b"
    offload.s3_managed_ledger_offload_credential_secret = "hush"
    for caller, shown in (("owner", False), ("admin", True)):
        async with Api(address, metadata=metadata(secured, caller)) as api:
            answer, got = await api.update(TOPIC, policies), await api.get(TOPIC)
            for document in (answer.document, got):
                assert document is not None and document.policies is not None
                secret = document.policies.offload_policies.s3_managed_ledger_offload_credential_secret
                assert (secret == "hush") is shown and secret


async def test_a_removed_admin_of_the_tenant_is_refused_soon(secured: Broker, address: str) -> None:
    def admins(*roles: str) -> None:
        with secured.admin() as admin:
            admin.call("POST", "tenants/acme", {"adminRoles": roles, "allowedClusters": ["standalone"]})

    async with Api(address, metadata=metadata(secured, "owner")) as api:
        await api.get(TOPIC)
        watching = asyncio.create_task(_until_refused(api))
        await asyncio.sleep(0.5)
        assert not watching.done()
        await asyncio.to_thread(admins, "gateway")
        try:
            async with asyncio.timeout(30):
                while True:
                    try:
                        await api.get(TOPIC)
                    except Refused as error:
                        assert (error.code, error.reason) == ("PERMISSION_DENIED", "PERMISSION_DENIED")
                        break
                    await asyncio.sleep(0.1)
                assert (await watching).code == "PERMISSION_DENIED"
        finally:
            await asyncio.to_thread(admins, "owner", "gateway")


async def _until_refused(api: Api) -> Refused:
    try:
        async for _ in api.watch([NAMESPACE]):
            pass
    except Refused as error:
        return error
    raise AssertionError("the watch ended without a refusal")
