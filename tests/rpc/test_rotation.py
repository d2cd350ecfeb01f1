"""Rotation of the server's certificate and of the keys of its callers' tokens while calls are made: no call fails."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

from tests.access.signing import jwk, pem, rsa_key, token
from tests.broker.credentials import Authority
from tests.stubs import async_stub
from topicpolicies.v1 import service_pb2 as pb
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    EmbeddedLogConfig,
    OidcConfig,
    ServerConfig,
    TokenConfig,
    parse_address,
)
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.rpc.server import Server

from .callers import Metadata
from .conftest import Refusal
from .test_certificates import Connection, Files, serial_of, shown, until

ISSUER = "https://login.example.com"
ROTATIONS = 3
LOADS = 3
TOPIC = "persistent://acme/orders/one"


class Kind(NamedTuple):
    """A way to sign tokens."""

    token: Callable[[int], str]
    """Returns a token signed with the key of a number."""
    file: Callable[[list[int]], bytes]
    """Returns the content of a file with the keys of these numbers."""
    authentication: Callable[[Path], AuthenticationConfig]


def secret(number: int) -> bytes:
    """Returns the secret key of a number."""
    return bytes([number]) * 32


def claims(**more: Any) -> dict[str, Any]:
    """Returns the claims of a token."""
    return {"sub": "owner", "exp": time.time() + 3_600, **more}


KINDS = {
    "secret": Kind(
        lambda number: token(secret(number), "HS256", **claims()),
        lambda numbers: b"\n".join(b"data:;base64," + base64.b64encode(secret(number)) for number in numbers),
        lambda path: AuthenticationConfig(token=TokenConfig(secret_key_file=path)),
    ),
    "public": Kind(
        lambda number: token(rsa_key(str(number)), "RS256", **claims()),
        lambda numbers: b"".join(pem(rsa_key(str(number))) for number in numbers),
        lambda path: AuthenticationConfig(token=TokenConfig(public_key_file=path)),
    ),
    "issuer": Kind(
        lambda number: token(rsa_key(str(number)), "RS256", {"kid": str(number)}, **claims(iss=ISSUER, aud="sidecar")),
        lambda numbers: json.dumps({"keys": [jwk(rsa_key(str(number)), str(number)) for number in numbers]}).encode(),
        lambda path: AuthenticationConfig(oidc=OidcConfig(issuers=(ISSUER,), audiences=("sidecar",), jwks_file=path)),
    ),
}


class Load:
    """Calls that are made without pause, all with the current token."""

    def __init__(self, server: Server, trust: Path, shown: str) -> None:
        self.shown = shown
        self.ended = False
        self.done = [0] * LOADS
        self._server = server
        self._trust = trust

    @property
    def metadata(self) -> Metadata:
        """The credentials of a call."""
        return (("authorization", f"Bearer {self.shown}"),)

    async def run(self, which: int) -> None:
        """Makes calls until ``ended``: load 0 with a new connection for each call, the others with one connection each."""
        while not self.ended:
            async with Connection(self._server, self._trust) as stub:
                while not self.ended:
                    policies = pb.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=self.done[which] % 100))
                    await stub.UpdatePolicy(policies, metadata=self.metadata)
                    self.done[which] += 1
                    if not which:
                        break

    async def turn(self) -> None:
        """Waits until each load has made two more calls, so that all calls with an older token are over."""
        goal = [count + 2 for count in self.done]

        async def made() -> bool:
            return all(count >= wanted for count, wanted in zip(self.done, goal, strict=True))

        await until(made)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_certificates_and_the_keys_of_tokens_are_replaced_under_load_without_a_failed_call(tmp_path: Path, kind: str) -> None:
    made, authority, files = KINDS[kind], Authority(tmp_path / "authority"), Files(tmp_path / "server")
    keys, roles = tmp_path / "keys", tmp_path / "roles.toml"
    keys.write_bytes(made.file([0]))
    roles.write_text('superusers = ["owner"]\n')
    files.put(authority.issue("server-0"))
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None),
        listen=parse_address("127.0.0.1:0"),
        tls=files.tls(),
        authentication=made.authentication(keys),
        authorization=AuthorizationConfig(file=roles),
    )
    rotated = []
    async with (
        Server(config) as server,
        grpc.aio.secure_channel(server.address, grpc.ssl_channel_credentials(authority.trust.read_bytes())) as channel,
    ):

        async def taken(text: str) -> bool:
            try:
                metadata: Metadata = (("authorization", f"Bearer {text}"),)
                await async_stub(channel).GetServerInfo(pb.GetServerInfoRequest(), metadata=metadata)
            except grpc.aio.AioRpcError as error:
                assert Refusal(error).info.reason == Reason.CREDENTIALS_INVALID
                return False
            return True

        load = Load(server, authority.trust, made.token(0))
        async with asyncio.TaskGroup() as group:
            for which in range(LOADS):
                group.create_task(load.run(which))
            for number in range(1, ROTATIONS + 1):
                old, new = load.shown, made.token(number)
                assert not await taken(new)
                identity = authority.issue(f"server-{number}")
                files.put(identity)
                keys.write_bytes(made.file([number - 1, number]))
                server.reloader.reload_now()
                await until(lambda text=new: taken(text))  # type: ignore[misc]
                load.shown = new
                await load.turn()
                keys.write_bytes(made.file([number]))
                server.reloader.reload_now()

                async def is_gone(text: str = old) -> bool:
                    return not await taken(text)

                await until(is_gone)
                serial = serial_of(identity.certificate)

                async def is_shown(serial: str = serial) -> bool:
                    return await asyncio.to_thread(shown, server.address, authority.trust) == serial

                await until(is_shown)
                await load.turn()
                rotated.append((number, serial))
            load.ended = True
    assert len(rotated) == ROTATIONS
    assert all(count >= 4 * ROTATIONS for count in load.done), load.done
