"""Who may do what beside a broker with authorization on: the same role has the same answer from the broker's admin API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import httpx
import jwt
import pytest

from tests.broker.admin import AdminError
from tests.broker.configuration import Security
from tests.broker.credentials import TokenKey
from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.rpc.callers import Metadata
from tests.rpc.test_permissions import CALLS, refusal_of
from tests.rpc.test_warrants import ended, watching
from tests.stubs import async_stub
from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1 import service_pb2
from topicpolicies_server.access.proxies import KEY as ORIGINAL_KEY
from topicpolicies_server.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    HistoryConfig,
    PulsarLogConfig,
    ServerConfig,
    TokenConfig,
    parse_address,
)
from topicpolicies_server.rpc.server import Server

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("permissions")]

NAMESPACE = "acme/orders"
SIDECAR = "sidecar"
CACHE_SECONDS = 2.0
ROLES = ("reader", "owner", "stranger", "admin", "unheard-of", "gateway", SIDECAR)
PROXIES = ("gateway", "front")
"""``gateway`` may itself do what the tenant's admins may."""
CALLERS = ("", *ROLES, *(f"{proxy}>{role}" for proxy in PROXIES for role in ROLES), "gateway>front", "owner>admin", "stranger>owner")
MAY = {"owner", "admin", SIDECAR, "gateway>owner", "gateway>admin", f"gateway>{SIDECAR}"}
"""Those who may change policies, and read them."""
_NO_ENTRY = (401, 403)


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    """A broker with tokens and authorization, a tenant whose admins are ``owner`` and ``gateway``, and one of ``stranger``'s."""
    settings = {"superUserRoles": f"admin,{SIDECAR}", "proxyRoles": "gateway,front"}
    with OwnBroker(security=Security(tokens=TokenKey()), settings=settings) as broker, broker.admin() as admin:
        admin.call("PUT", "tenants/acme", {"adminRoles": ["owner", "gateway"], "allowedClusters": ["standalone"]})
        admin.call("PUT", "tenants/other", {"adminRoles": ["stranger"], "allowedClusters": ["standalone"]})
        admin.call("PUT", f"namespaces/{NAMESPACE}", {"replication_clusters": ["standalone"]})
        admin.call("POST", f"namespaces/{NAMESPACE}/permissions/reader", ["consume", "produce"])
        admin.create_topic(f"{NAMESPACE}/one")
        yield broker


@pytest.fixture
def token_file(secured: Broker, tmp_path: Path) -> Path:
    """The server's own token."""
    path = tmp_path / "token"
    path.write_text(secured.token(SIDECAR) or "")
    return path


@pytest.fixture
def key(secured: Broker, tmp_path: Path) -> Path:
    """The key that the broker verifies tokens with."""
    assert secured.security.tokens is not None
    path = tmp_path / "secret.key"
    path.write_bytes(secured.security.tokens.secret)
    return path


@pytest.fixture
def config(secured: Broker, tmp_path: Path, token_file: Path, key: Path) -> ServerConfig:
    """A server beside it, whose callers may do what it says."""
    return ServerConfig(
        log=PulsarLogConfig(service_url=secured.service_url, admin_url=secured.admin_url, token_file=token_file),
        listen=parse_address("127.0.0.1:0"),
        history=HistoryConfig(path=tmp_path / "history.db"),
        authentication=AuthenticationConfig(token=TokenConfig(secret_key_file=key), proxy_roles=PROXIES),
        authorization=AuthorizationConfig(brokers=True, cache_seconds=CACHE_SECONDS),
    )


@pytest.fixture
async def channel(config: ServerConfig) -> AsyncIterator[grpc.aio.Channel]:
    """To that server."""
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as opened:
        yield opened


@pytest.fixture
def of(secured: Broker) -> Callable[[str], Metadata]:
    """What a caller shows to the server: the token that he shows to the broker."""

    def shown(caller: str) -> Metadata:
        principal, _, original = caller.partition(">")
        found = (("authorization", f"Bearer {secured.token(principal)}"),) if principal else ()
        return (*found, (ORIGINAL_KEY, original)) if original else found

    return shown


def lets(broker: Broker, shown: Metadata, method: str, path: str, body: object = None) -> bool:
    """Whether the broker's admin API lets a caller do something who shows it the same."""
    headers = {"X-Original-Principal" if name == ORIGINAL_KEY else name: value for name, value in shown}
    with httpx.Client(timeout=30, trust_env=False) as http:
        answer = http.request(method, f"{broker.admin_url}/admin/v2/{path}", json=body, headers=headers)
    if answer.status_code in _NO_ENTRY:
        return False
    assert answer.is_success or answer.status_code == httpx.codes.NOT_FOUND, (answer.status_code, answer.text)
    return True


def tokens(secret: bytes) -> dict[str, str]:
    """Tokens of ``owner``, who may; but for the first two there is something wrong with each."""
    now = int(time.time())
    owner = {"sub": "owner"}
    good = jwt.encode(owner, secret, "HS256")
    header, _, signature = good.split(".")
    another = jwt.encode({"sub": "admin"}, secret, "HS256").split(".")[1]
    return {
        "good": good,
        "good for an hour": jwt.encode({**owner, "exp": now + 3_600, "nbf": now - 60}, secret, "HS256"),
        "expired": jwt.encode({**owner, "exp": now - 3_600}, secret, "HS256"),
        "not good yet": jwt.encode({**owner, "nbf": now + 3_600}, secret, "HS256"),
        "signed with another key": jwt.encode(owner, bytes(32), "HS256"),
        "signed with too short a key for its algorithm": jwt.encode(owner, secret, "HS512"),
        "not signed": jwt.encode(owner, "", "none"),
        "another's words with this one's signature": f"{header}.{another}.{signature}",
        "without its signature": good.rpartition(".")[0] + ".",
        "of nobody": jwt.encode({"name": "owner"}, secret, "HS256"),
        "of an empty name": jwt.encode({"sub": ""}, secret, "HS256"),
        "no token": "owner",
    }


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
async def test_a_token_that_does_not_hold_is_refused_as_the_broker_refuses_it(
    secured: Broker, channel: grpc.aio.Channel, key: Path
) -> None:
    for name, token in tokens(await asyncio.to_thread(key.read_bytes)).items():
        shown = (("authorization", f"Bearer {token}"),)
        theirs = await asyncio.to_thread(lets, secured, shown, "GET", f"persistent/{NAMESPACE}/one/maxProducers")
        for call in CALLS:
            ours = await refusal_of(CALLS[call][0], channel, name, lambda _, given=shown: given) is None  # type: ignore[misc]
            assert (ours, theirs) == (name.startswith("good"),) * 2, (name, call)


async def test_the_same_token_has_the_same_answer_from_the_brokers_admin_api(
    secured: Broker, channel: grpc.aio.Channel, of: Callable[[str], Metadata]
) -> None:
    topic = f"persistent/{NAMESPACE}/one"
    questions = {"GetPolicy": ("GET", f"{topic}/maxProducers", None), "UpdatePolicy": ("POST", f"{topic}/maxProducers", 7)}
    answers: dict[str, list[bool]] = {}
    for caller in CALLERS:
        theirs = [await asyncio.to_thread(lets, secured, of(caller), *question) for question in questions.values()]
        ours = [await refusal_of(CALLS[call][0], channel, caller, of) is None for call in questions]
        assert ours == theirs, caller
        answers[caller] = ours
    assert {caller for caller, found in answers.items() if all(found)} == MAY
    assert not any(any(found) for caller, found in answers.items() if caller not in MAY)


@pytest.mark.parametrize("call", CALLS)
async def test_every_call_is_made_by_the_tenants_admins_and_superusers_and_by_nobody_else(
    channel: grpc.aio.Channel, of: Callable[[str], Metadata], call: str
) -> None:
    make, permission, _ = CALLS[call]
    known = {"reader", "owner", "stranger", "admin", "unheard-of", SIDECAR, *(f"{proxy}>{role}" for proxy in PROXIES for role in ROLES)}
    known -= {f"{proxy}>gateway" for proxy in PROXIES}
    for caller in CALLERS:
        told = await refusal_of(make, channel, caller, of)
        anybody = caller in known or (not caller and call == "Health/Check")
        assert (told is None) == (caller in MAY if permission else anybody), (caller, told)


async def test_roles_of_the_namespace_may_read_where_that_was_said(config: ServerConfig, of: Callable[[str], Metadata]) -> None:
    wider = AuthorizationConfig(brokers=True, cache_seconds=CACHE_SECONDS, namespace_roles_may_read=True)
    async with Server(_with(config, wider)) as server, grpc.aio.insecure_channel(server.address) as channel:
        found = {call: await refusal_of(CALLS[call][0], channel, "reader", of) is None for call in CALLS if CALLS[call][1]}
        assert {call for call, may in found.items() if may} == {
            "GetPolicy",
            "GetEffectivePolicy",
            "ListPolicies",
            "WatchPolicies",
            "WatchPolicies of a topic",
        }
        assert await refusal_of(CALLS["GetPolicy"][0], channel, "stranger", of) is not None


def _with(config: ServerConfig, authorization: AuthorizationConfig) -> ServerConfig:
    return replace(config, authorization=authorization)


async def test_secrets_are_seen_by_superusers_only(channel: grpc.aio.Channel, of: Callable[[str], Metadata]) -> None:
    stub = async_stub(channel)
    offload = pb.OffloadPolicies(
        managed_ledger_offload_driver="aws-s3", managed_ledger_offload_bucket="b", s3_managed_ledger_offload_credential_secret="hush"
    )
    topic = f"persistent://{NAMESPACE}/one"
    policies = pb.TopicPolicies(offload_policies=offload)
    seen = {}
    for caller in ("owner", "admin"):
        answer = await stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=topic, policies=policies), metadata=of(caller))
        got = await stub.GetPolicy(service_pb2.GetPolicyRequest(topic=topic), metadata=of(caller))
        seen[caller] = (b"hush" in answer.SerializeToString(), b"hush" in got.SerializeToString())
    assert seen == {"owner": (False, False), "admin": (True, True)}


async def test_a_watch_ends_when_its_role_is_no_admin_of_the_tenant_any_more(
    secured: Broker, channel: grpc.aio.Channel, of: Callable[[str], Metadata]
) -> None:
    def admins(*roles: str) -> None:
        with secured.admin() as admin:
            admin.call("POST", "tenants/acme", {"adminRoles": roles, "allowedClusters": ["standalone"]})

    told, kept = (watching(async_stub(channel), caller, of, namespaces=[NAMESPACE]) for caller in ("owner", "admin"))
    await told.until_synced()
    await kept.until_synced()
    loop = asyncio.get_running_loop()
    try:
        await asyncio.to_thread(admins, "gateway")
        began = loop.time()
        _, refusal = await ended(told)
        took = loop.time() - began
    finally:
        await asyncio.to_thread(admins, "owner", "gateway")
    assert refusal.info.reason == "PERMISSION_DENIED"
    assert took < CACHE_SECONDS + 10.0
    kept.cancel()


async def test_a_role_that_may_not_ask_for_roles_refuses_everybody_but_the_superusers_that_were_named(
    secured: Broker, config: ServerConfig, token_file: Path, of: Callable[[str], Metadata]
) -> None:
    await asyncio.to_thread(token_file.write_text, secured.token("reader") or "")
    named = AuthorizationConfig(brokers=True, superuser_roles=("admin",))
    async with Server(_with(config, named)) as server, grpc.aio.insecure_channel(server.address) as channel:
        stub = async_stub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetPolicy(service_pb2.GetPolicyRequest(topic=f"persistent://{NAMESPACE}/one"), metadata=of("owner"))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "It is not known what roles may do in acme/orders" in (caught.value.details() or "")


def test_the_admin_api_tells_a_tenants_roles_to_its_admins_and_superusers_only(secured: Broker) -> None:
    with secured.admin("stranger") as admin, pytest.raises(AdminError) as caught:
        admin.call("GET", "tenants/acme")
    assert caught.value.status in _NO_ENTRY
