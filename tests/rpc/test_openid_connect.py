"""Authentication by tokens of an OpenID Connect issuer whose keys are fetched over HTTP or read from a file."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import pytest

from tests.access.issuer import Issuer, serving
from tests.access.signing import jwk, rsa_key, token
from tests.stubs import async_stub
from topicpolicies.v1.service_pb2 import GetPolicyRequest
from topicpolicies_server.access.issuers import ASK_SECONDS
from topicpolicies_server.config import (
    AuthenticationConfig,
    EmbeddedLogConfig,
    Limits,
    OidcConfig,
    ServerConfig,
    parse_address,
)
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal
from .test_identifying import ALL_PERMITTED, PATIENCE, replace


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """Yields an issuer with one key."""
    with serving() as running:
        running.keys = [jwk(rsa_key("first"), "first")]
        yield running


@pytest.fixture
def file(tmp_path: Path, issuer: Issuer) -> Path:
    """Returns a file with the same keys."""
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": issuer.keys}))
    return path


@pytest.fixture(params=["asked", "file"])
def from_file(request: pytest.FixtureRequest) -> bool:
    """Returns whether the server reads the keys from the file."""
    return bool(request.param == "file")


@pytest.fixture
async def server(issuer: Issuer, file: Path, from_file: bool, limits: Limits) -> AsyncIterator[Server]:
    """Yields a server that accepts the issuer's tokens."""
    oidc = OidcConfig(issuers=(issuer.name,), audiences=("topicpolicies",), jwks_file=file if from_file else None)
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None),
        listen=parse_address("127.0.0.1:0"),
        limits=limits,
        authentication=AuthenticationConfig(oidc=oidc),
        authorization=ALL_PERMITTED,
    )
    async with Server(config) as running:
        yield running


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """Yields a channel to the server."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield channel


async def ask(channel: grpc.aio.Channel, issuer: Issuer, key: str, key_id: str = "") -> Reason | None:
    """Returns why a token signed with a key is refused; None: it is accepted."""
    claims = {"iss": issuer.name, "aud": "topicpolicies", "exp": time.time() + 60}
    shown = token(rsa_key(key), "RS256", {"kid": key_id or key}, **claims)
    try:
        await async_stub(channel).GetPolicy(GetPolicyRequest(topic=TOPIC), metadata=(("authorization", f"Bearer {shown}"),))
    except grpc.aio.AioRpcError as error:
        return Reason(Refusal(error).info.reason)
    return None


async def test_tokens_of_the_issuer_are_accepted_and_forged_ones_are_refused(
    channel: grpc.aio.Channel, issuer: Issuer, from_file: bool
) -> None:
    assert await ask(channel, issuer, "first") is None
    assert await ask(channel, issuer, "second", "first") is Reason.CREDENTIALS_INVALID
    assert issuer.times() == (0 if from_file else 1)


@pytest.mark.parametrize("from_file", [False])
async def test_many_forged_tokens_cause_only_few_requests_to_the_issuer(channel: grpc.aio.Channel, issuer: Issuer) -> None:
    began = time.monotonic()
    for _ in range(5):
        results = await asyncio.gather(*(ask(channel, issuer, "second", f"kid-{number}") for number in range(20)))
        assert set(results) == {Reason.CREDENTIALS_INVALID}
    assert await ask(channel, issuer, "first") is None
    assert 1 <= issuer.times() <= 2 + (time.monotonic() - began) / ASK_SECONDS


@pytest.mark.parametrize("from_file", [True])
async def test_replaced_keys_in_the_file_take_effect_without_a_restart(
    server: Server, channel: grpc.aio.Channel, issuer: Issuer, file: Path
) -> None:
    assert await ask(channel, issuer, "second") is Reason.CREDENTIALS_INVALID
    replace(file, json.dumps({"keys": [jwk(rsa_key("second"), "second")]}).encode())
    server.reloader.reload_now()
    async with asyncio.timeout(PATIENCE):
        while await ask(channel, issuer, "second") is not None:
            pass
    assert await ask(channel, issuer, "first") is Reason.CREDENTIALS_INVALID
