"""A matrix of authentication: every method with every kind of credentials, over plaintext on loopback, TLS and mutual TLS."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.access.signing import SECRET, signed, token, unsigned
from tests.client.certificates import Authority
from tests.stubs import AsyncStub, async_stub
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
from topicpolicies_server.rpc.calls import Call
from topicpolicies_server.rpc.server import Server

from .conftest import Refusal
from .test_identifying import ALL_PERMITTED, EVERY, PATIENCE, Metadata, replace

REVOKED = bytes(32)
"""The key that is in force when the server starts, and then replaced."""


@pytest.fixture(params=["plaintext", "tls", "mutual tls"])
def transport(request: pytest.FixtureRequest) -> str:
    """Returns the transport of the calls."""
    found: str = request.param
    return found


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Returns the certificate authority that both sides trust."""
    return Authority(tmp_path, "authority")


@pytest.fixture
async def server(tmp_path: Path, transport: str, authority: Authority, limits: Limits) -> AsyncIterator[Server]:
    """Yields a server that authenticates tokens, and certificates over mutual TLS. Its key is replaced after the start."""
    key = tmp_path / "secret.key"
    key.write_bytes(REVOKED)
    own = authority.identity("server", "127.0.0.1")
    mutual = transport == "mutual tls"
    tls = TlsConfig(certificate_file=own.certificate, key_file=own.key, client_ca_file=authority.certificate if mutual else None)
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None),
        listen=parse_address("127.0.0.1:0"),
        limits=limits,
        tls=None if transport == "plaintext" else tls,
        authentication=AuthenticationConfig(
            token=TokenConfig(secret_key_file=key, audience_claim="aud", audience="sidecar"),
            certificate="cn" if mutual else "",
            proxy_roles=("gateway",),
        ),
        authorization=ALL_PERMITTED,
    )
    async with Server(config) as running:
        replace(key, SECRET)
        running.reloader.reload_now()
        yield running


@pytest.fixture
async def stub(server: Server, transport: str, authority: Authority) -> AsyncIterator[AsyncStub]:
    """Yields a stub of the service over the transport, once the new key is in force."""
    mine = authority.identity("carol") if transport == "mutual tls" else None
    credentials = grpc.ssl_channel_credentials(
        authority.certificate.read_bytes(),
        mine.key.read_bytes() if mine is not None else None,
        mine.certificate.read_bytes() if mine is not None else None,
    )
    plain = transport == "plaintext"
    async with grpc.aio.insecure_channel(server.address) if plain else grpc.aio.secure_channel(server.address, credentials) as channel:
        stub = async_stub(channel)
        async with asyncio.timeout(PATIENCE):
            while await reason_of(stub, "GetServerInfo", shown(token(aud="sidecar"))) is not None:
                pass  # the new key is not in force yet
        yield stub


def shown(text: str, original: str = "") -> Metadata:
    metadata: Metadata = (("authorization", f"Bearer {text}"),)
    return (*metadata, ("topicpolicies-original-principal", original)) if original else metadata


async def reason_of(stub: AsyncStub, method: str, metadata: Metadata) -> Reason | None:
    """Returns why a call is refused as unauthenticated or not permitted; None: it is not, though it may fail otherwise."""
    try:
        await EVERY[method](stub, metadata)
    except grpc.aio.AioRpcError as error:
        refusal = Refusal(error)
        if refusal.code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
            return Reason(refusal.info.reason)
    return None


@pytest.mark.parametrize("method", EVERY)
async def test_each_kind_of_credentials_identifies_its_caller_or_is_refused_with_its_reason(
    server: Server, stub: AsyncStub, transport: str, method: str
) -> None:
    now = time.time()
    mine: dict[str, Any] = {"sub": "alice", "aud": "sidecar"}
    good = token(**mine)
    certificate = transport == "mutual tls"
    for metadata, reason in [
        ((), None if certificate else Reason.CREDENTIALS_MISSING),
        (shown(token(bytes(48), **mine)), Reason.CREDENTIALS_INVALID),  # forged
        (shown(token(REVOKED, **mine)), Reason.CREDENTIALS_INVALID),  # revoked: its key was replaced
        (shown(good[:-6] + "AAAAAA"), Reason.CREDENTIALS_INVALID),  # changed
        (shown(unsigned({"alg": "none"}, mine)), Reason.CREDENTIALS_INVALID),
        (shown(signed({"alg": "RS256"}, mine)), Reason.CREDENTIALS_INVALID),
        (shown(token(exp=now - 1, **mine)), Reason.CREDENTIALS_EXPIRED),
        (shown(token(nbf=now + 60, **mine)), Reason.CREDENTIALS_INVALID),
        (shown(token(sub="alice", aud="another")), Reason.CREDENTIALS_INVALID),
        (shown(token(sub="alice")), Reason.CREDENTIALS_INVALID),  # no audience
        (shown(token(aud="sidecar", sub="")), Reason.CREDENTIALS_INVALID),  # no role
        (shown(good, "bob"), Reason.PROXY_REFUSED),
        (shown(token(aud="sidecar", sub="gateway")), Reason.PROXY_REFUSED),
        (shown(token(aud="sidecar", sub="gateway"), "gateway"), Reason.PROXY_REFUSED),
    ]:
        assert await reason_of(stub, method, metadata) is reason, metadata
    began: list[Call] = []
    server.calls.began = began.append
    for metadata, caller in [
        (shown(good), ("alice", Way.TOKEN, "")),
        (shown(token(exp=now + 60, **mine)), ("alice", Way.TOKEN, "")),
        (shown(token(aud=["x", "sidecar"], sub="gateway"), "bob"), ("gateway", Way.TOKEN, "bob")),
        *([((), ("carol", Way.CERTIFICATE, ""))] if certificate else []),
    ]:
        began.clear()
        assert await reason_of(stub, method, metadata) is None
        (found,) = began
        assert found.caller[:3] == caller
