"""Permissions from a broker with authorization: a role may do in the server what it may do through the broker's admin API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from tests.broker.admin import AdminError
from tests.broker.configuration import Security
from tests.broker.credentials import Authority, TokenKey
from tests.broker.pulsar_broker import Broker, OwnBroker
from tests.promises.broker.test_permissions import NAMESPACE, SIDECAR, prepare
from tests.rpc.both_sides import MUTUAL, TRANSPORTS, Delays, both_sides, lets, tokens
from tests.rpc.callers import Metadata
from tests.rpc.conftest import Refusal
from tests.rpc.test_permissions import CALLS, refusal_of
from tests.rpc.test_watch_permissions import watching
from tests.stubs import async_stub
from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1 import service_pb2
from topicpolicies_server.access.identification import ORIGINAL_KEY
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

pytestmark = [pytest.mark.broker]

CACHE_SECONDS = 2.0
ROLES = ("reader", "owner", "stranger", "admin", "unheard-of", "gateway", SIDECAR)
PROXIES = ("gateway", "front")
"""``gateway`` may itself do what the tenant's admins may."""
CALLERS = ("", *ROLES, *(f"{proxy}>{role}" for proxy in PROXIES for role in ROLES), "gateway>front", "owner>admin", "stranger>owner")
MAY = {"owner", "admin", SIDECAR, "gateway>owner", "gateway>admin", f"gateway>{SIDECAR}"}
"""The callers that may change and read policies."""
AUDIENCE = "pulsar"
TOPIC = f"persistent/{NAMESPACE}/one"
QUESTIONS: dict[str, tuple[str, str, object]] = {
    "UpdatePolicy": ("POST", f"{TOPIC}/maxProducers", 7),
    "BatchUpdatePolicies": ("POST", f"{TOPIC}/maxConsumers", 7),
    "GetPolicy": ("GET", f"{TOPIC}/maxProducers", None),
    "GetEffectivePolicy": ("GET", f"{TOPIC}/maxProducers?applied=true", None),
    "ListPolicies": ("GET", f"{TOPIC}/retention", None),
    "DeletePolicy": ("DELETE", f"{TOPIC}/maxProducers", None),
}
"""By method, the corresponding request to the admin API, which has no listings, watches or history."""
PROMISED_SECONDS = 4.0
"""The most seconds from when the brokers' cached answers expire until the last thing is sent (docs/security.md)."""
PATIENCE = 60.0
_NO_ENTRY = (401, 403)
_PROVIDERS = "org.apache.pulsar.broker.authentication.AuthenticationProvider"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Returns the certificate authority that all sides trust."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[Broker]:
    """Yields a broker with tokens and certificates.

    It has two tenants: the admins of one are ``owner`` and ``gateway``, that of the other is ``stranger``.
    """
    settings = {
        "superUserRoles": f"admin,{SIDECAR}",
        "proxyRoles": "gateway,front",
        "authenticationProviders": f"{_PROVIDERS}Token,{_PROVIDERS}Tls",
        "tokenAudienceClaim": "aud",
        "tokenAudience": AUDIENCE,
    }
    security = Security(tokens=TokenKey(audience=AUDIENCE), authority=authority)
    with OwnBroker(security=security, settings=settings) as broker, broker.admin() as admin:
        prepare(admin)
        yield broker


@pytest.fixture
def token_file(secured: Broker, tmp_path: Path) -> Path:
    """Returns the file of the server's own token."""
    path = tmp_path / "token"
    path.write_text(secured.token(SIDECAR) or "")
    return path


@pytest.fixture
def key(secured: Broker, tmp_path: Path) -> Path:
    """Returns the file of the key with which the broker verifies tokens."""
    assert secured.security.tokens is not None
    path = tmp_path / "secret.key"
    path.write_bytes(secured.security.tokens.secret)
    return path


@pytest.fixture
def config(secured: Broker, tmp_path: Path, token_file: Path, key: Path) -> ServerConfig:
    """Returns the configuration of a server for this broker, which takes its permissions from the broker."""
    return ServerConfig(
        log=PulsarLogConfig(service_url=secured.service_url, admin_url=secured.admin_url, token_file=token_file),
        listen=parse_address("127.0.0.1:0"),
        history=HistoryConfig(path=tmp_path / "history.db"),
        authentication=AuthenticationConfig(
            token=TokenConfig(secret_key_file=key, audience_claim="aud", audience=AUDIENCE), proxy_roles=PROXIES
        ),
        authorization=AuthorizationConfig(brokers=True, cache_seconds=CACHE_SECONDS),
    )


@pytest.fixture
async def channel(config: ServerConfig) -> AsyncIterator[grpc.aio.Channel]:
    """Yields a channel to that server."""
    async with Server(config) as server, grpc.aio.insecure_channel(server.address) as opened:
        yield opened


@pytest.fixture
def of(secured: Broker) -> Callable[[str], Metadata]:
    """Returns a function that returns the metadata of a caller, with the token that it also sends to the broker."""

    def shown(caller: str) -> Metadata:
        principal, _, original = caller.partition(">")
        found = (("authorization", f"Bearer {secured.token(principal)}"),) if principal else ()
        return (*found, (ORIGINAL_KEY, original)) if original else found

    return shown


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
async def test_the_server_accepts_and_refuses_the_same_tokens_as_the_broker(secured: Broker, channel: grpc.aio.Channel, key: Path) -> None:
    for name, token in tokens(await asyncio.to_thread(key.read_bytes), AUDIENCE).items():
        shown = (("authorization", f"Bearer {token}"),)
        theirs = await asyncio.to_thread(lets, secured, shown, *QUESTIONS["GetPolicy"])
        for call in CALLS:
            ours = await refusal_of(CALLS[call][0], channel, name, lambda _, given=shown: given) is None  # type: ignore[misc]
            assert (ours, theirs) == (name.startswith("good"),) * 2, (name, call)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_server_permits_a_principal_what_the_brokers_admin_api_permits(
    secured: Broker, authority: Authority, config: ServerConfig, transport: str
) -> None:
    answers: dict[str, dict[str, bool]] = {}
    async with both_sides(secured, authority, config, transport) as sides:
        for caller in CALLERS:
            if caller or transport != MUTUAL:  # without a certificate there is no connection
                ours, theirs = await sides.answers(caller, QUESTIONS)
                assert ours == theirs, caller
                answers[caller] = ours
    assert {caller for caller, found in answers.items() if all(found.values())} == MAY
    assert not any(any(found.values()) for caller, found in answers.items() if caller not in MAY)


def _with(config: ServerConfig, authorization: AuthorizationConfig) -> ServerConfig:
    return replace(config, authorization=authorization)


async def test_calls_and_watches_of_a_removed_tenant_admin_end_within_the_promised_time(
    secured: Broker, channel: grpc.aio.Channel, of: Callable[[str], Metadata]
) -> None:
    stub, loop = async_stub(channel), asyncio.get_running_loop()
    lost, kept = (watching(stub, caller, of, namespaces=[NAMESPACE]) for caller in ("owner", "admin"))
    last, topic = {"sent": 0.0, "answered": 0.0}, TOPIC.replace("/", "://", 1)
    refused: list[Refusal] = []

    def admins(*roles: str) -> None:
        with secured.admin() as admin:
            admin.call("POST", "tenants/acme", {"adminRoles": roles, "allowedClusters": ["standalone"]})

    async def changes() -> None:
        while True:
            for value in (3, 4):
                policies = pb.TopicPolicies(max_consumer_per_topic=value)
                await stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=topic, policies=policies), metadata=of("admin"))
                await asyncio.sleep(0.02)

    async def watched() -> None:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            while True:
                await lost.change()
                last["sent"] = loop.time()
        refused.append(Refusal(caught.value))

    async def called() -> None:
        while True:
            began = loop.time()
            try:
                await stub.GetPolicy(service_pb2.GetPolicyRequest(topic=topic), metadata=of("owner"))
            except grpc.aio.AioRpcError as error:
                refusal = Refusal(error)
                if refusal.code is not grpc.StatusCode.UNAVAILABLE:  # on a very busy machine the brokers may not answer in time
                    refused.append(refusal)
                    return
            else:
                last["answered"] = began
            await asyncio.sleep(0.02)

    await lost.until_synced()
    await kept.until_synced()
    changing, ends = asyncio.create_task(changes()), [asyncio.create_task(each()) for each in (watched, called)]
    try:
        async with asyncio.timeout(PATIENCE):
            while not all(last.values()):  # noqa: ASYNC110 (nothing signals it)
                await asyncio.sleep(0.01)
            await asyncio.to_thread(admins, "gateway")
            async with Delays() as delays:
                taken = loop.time()  # the broker refuses the role from now on
                assert not await asyncio.to_thread(lets, secured, of("owner"), *QUESTIONS["GetPolicy"])
                await asyncio.gather(*ends)
        await kept.change()
        assert not changing.done(), "there was not always a change to send"
        assert await refusal_of(CALLS["UpdatePolicy"][0], channel, "owner", of) is not None
    finally:
        for each in (changing, *ends):
            each.cancel()
        await asyncio.to_thread(admins, "owner", "gateway")
    assert [each.info.reason for each in refused] == ["PERMISSION_DENIED"] * 2
    promised = CACHE_SECONDS + PROMISED_SECONDS + delays.seconds
    took = {what: moment - taken for what, moment in last.items()}
    assert max(took.values()) <= promised, (took, delays.seconds)
    kept.cancel()


async def test_if_the_servers_role_may_not_read_the_tenants_admins_calls_of_an_admin_are_unavailable(
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


def test_the_admin_api_does_not_show_the_admins_of_a_tenant_to_other_roles(secured: Broker) -> None:
    with secured.admin("stranger") as admin, pytest.raises(AdminError) as caught:
        admin.call("GET", "tenants/acme")
    assert caught.value.status in _NO_ENTRY
