"""Authentication by client certificates over mutual TLS, alone and together with tokens."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest

from tests.access.signing import SECRET, token
from tests.client.certificates import Authority, Identity
from tests.stubs import async_stub
from topicpolicies.v1.service_pb2 import GetPolicyRequest
from topicpolicies_server.access import Way
from topicpolicies_server.config import (
    AuthenticationConfig,
    EmbeddedLogConfig,
    Limits,
    ServerConfig,
    TlsConfig,
    TokenConfig,
    parse_address,
)
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal
from .test_identifying import ALL_PERMITTED, Noting

Metadata = tuple[tuple[str, str], ...]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Returns the certificate authority that both sides trust."""
    return Authority(tmp_path, "authority")


@pytest.fixture
def carol(authority: Authority) -> Identity:
    """Returns a client's certificate with a common name and a DNS name."""
    return authority.identity("carol", "orders.acme.example")


@pytest.fixture(params=["cn", "dns"])
def rule(request: pytest.FixtureRequest) -> str:
    """Returns the part of a certificate that has the role."""
    found: str = request.param
    return found


@pytest.fixture
def authentication(tmp_path: Path, rule: str) -> AuthenticationConfig:
    """Returns a configuration with tokens and certificates; ``gateway`` is a proxy."""
    key = tmp_path / "secret.key"
    key.write_bytes(SECRET)
    return AuthenticationConfig(token=TokenConfig(secret_key_file=key), certificate=rule, proxy_roles=("gateway",))


@pytest.fixture
async def server(authority: Authority, authentication: AuthenticationConfig, limits: Limits) -> AsyncIterator[Server]:
    """Yields a server with mutual TLS."""
    own = authority.identity("server", "127.0.0.1")
    tls = TlsConfig(certificate_file=own.certificate, key_file=own.key, client_ca_file=authority.certificate)
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None),
        listen=parse_address("127.0.0.1:0"),
        limits=limits,
        tls=tls,
        authentication=authentication,
        authorization=ALL_PERMITTED,
    )
    async with Server(config) as running:
        yield running


Connect = Callable[[Identity], grpc.aio.Channel]


@pytest.fixture
async def connect(server: Server, authority: Authority) -> AsyncIterator[Connect]:
    """Yields a function that connects with a certificate."""
    channels = []

    def connected(identity: Identity) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(
            authority.certificate.read_bytes(), identity.key.read_bytes(), identity.certificate.read_bytes()
        )
        channels.append(grpc.aio.secure_channel(server.address, credentials))
        return channels[-1]

    yield connected
    for channel in channels:
        await channel.close()


async def ask(channel: grpc.aio.Channel, *metadata: tuple[str, str]) -> None:
    await async_stub(channel).GetPolicy(GetPolicyRequest(topic=TOPIC), metadata=metadata)


async def test_a_certificate_identifies_the_caller_unless_a_token_does(
    server: Server, connect: Connect, carol: Identity, rule: str
) -> None:
    noting = Noting()
    server.calls.observers = (noting,)
    channel = connect(carol)
    await ask(channel)
    await ask(channel)
    await ask(channel, ("authorization", f"Bearer {token()}"))
    role = {"cn": "carol", "dns": "orders.acme.example"}[rule]
    assert [(caller.role, caller.way) for _, caller in noting.callers] == [
        (role, Way.CERTIFICATE),
        (role, Way.CERTIFICATE),
        ("alice", Way.TOKEN),
    ]
    assert noting.callers[0][1].expires_at < math.inf, "the expiry of the certificate is not known"


@pytest.mark.parametrize("rule", ["cn"])
async def test_an_invalid_token_is_refused_although_the_certificate_is_valid(connect: Connect, carol: Identity) -> None:
    for shown in (token(bytes(32)), "garbage"):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask(connect(carol), ("authorization", f"Bearer {shown}"))
        assert Refusal(caught.value).info.reason == Reason.CREDENTIALS_INVALID


@pytest.mark.parametrize("rule", ["uri"])
async def test_a_certificate_without_a_role_is_refused(connect: Connect, carol: Identity) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(connect(carol))
    refusal = Refusal(caught.value)
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.UNAUTHENTICATED, Reason.CREDENTIALS_INVALID)


@pytest.mark.parametrize("rule", ["cn"])
async def test_a_proxy_can_be_identified_by_its_certificate(
    server: Server, connect: Connect, authority: Authority, carol: Identity
) -> None:
    noting = Noting()
    server.calls.observers = (noting,)
    original = ("topicpolicies-original-principal", "bob")
    await ask(connect(authority.identity("gateway")), original)
    (caller,) = (each for _, each in noting.callers)
    assert (caller.principal, caller.speaks_for, caller.way) == ("gateway", "bob", Way.CERTIFICATE)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(connect(carol), original)
    assert Refusal(caught.value).info.reason == Reason.PROXY_REFUSED


@pytest.mark.parametrize("rule", ["cn"])
async def test_a_certificate_of_another_authority_gets_no_connection(connect: Connect, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger").identity("carol2")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(connect(stranger))
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
