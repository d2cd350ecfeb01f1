"""The whole matrix of who may do what: every call, by everybody, over every transport, beside an embedded log and a file of roles.

Beside a broker the same stands in ``test_permissions_on_broker``, where the same principals are judged by the broker too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from tests.access.signing import SECRET, signed, token, unsigned
from tests.client.certificates import Authority
from tests.rpc.callers import ROLES, Metadata
from tests.rpc.test_permissions import CALLS, NAMESPACE, check, reflect, refusal_of
from tests.stubs import async_stub
from topicpolicies.v1 import service_pb2
from topicpolicies_server.access.proxies import KEY as ORIGINAL_KEY
from topicpolicies_server.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    EmbeddedLogConfig,
    HistoryConfig,
    ServerConfig,
    TlsConfig,
    TokenConfig,
    parse_address,
)
from topicpolicies_server.rpc.server import Server

from .test_identifying import replace

PATIENCE = 20.0
AUDIENCE = "sidecar"
REVOKED = bytes(32)
"""The key that was in force before."""
PLAINTEXT, TLS, MUTUAL = TRANSPORTS = ("plaintext", "TLS", "mutual TLS")
OPEN = {name for name, (make, *_) in CALLS.items() if make is check}
"""Calls of whoever asks: he may also show nothing."""


class Principal(NamedTuple):
    """Somebody who calls."""

    shown: str = ""
    """The token."""
    original: str = ""
    """For whom it is said to be."""
    role: str = ""
    """Whose permissions are asked for, if he is known."""
    refusal: str = ""
    """Why he is not known; empty: he is."""

    @property
    def metadata(self) -> Metadata:
        """What is sent."""
        found: Metadata = (("authorization", f"Bearer {self.shown}"),) if self.shown else ()
        return (*found, (ORIGINAL_KEY, self.original)) if self.original else found


def of(role: str, **claims: object) -> str:
    """A token that holds, unless its claims say otherwise."""
    return token(**{"sub": role, "aud": AUDIENCE, **claims})  # type: ignore[arg-type]


def principals() -> dict[str, Principal]:
    """Everybody. Tokens that do not hold are a superuser's."""
    now = time.time()
    claims: dict[str, Any] = {"sub": "admin", "aud": AUDIENCE}
    bad, denied = "CREDENTIALS_INVALID", "ORIGINAL_PRINCIPAL_INVALID"
    return {
        "no credentials": Principal(refusal="CREDENTIALS_MISSING"),
        "a forged token": Principal(token(bytes(48), **claims), refusal=bad),
        "a token that nobody signed": Principal(unsigned({"alg": "none"}, claims), refusal=bad),
        "a token of another algorithm": Principal(signed({"alg": "RS256"}, claims), refusal=bad),
        "an expired token": Principal(of("admin", exp=now - 1), refusal="CREDENTIALS_EXPIRED"),
        "a token of tomorrow": Principal(of("admin", nbf=now + 86_400), refusal=bad),
        "a token for another audience": Principal(of("admin", aud="another"), refusal=bad),
        "a token of a key that was replaced": Principal(token(REVOKED, **claims), refusal=bad),
        "a role of another tenant": Principal(of("stranger"), role="stranger"),
        "a role that nobody knows": Principal(of("unheard-of"), role="unheard-of"),
        "a reader": Principal(of("reader", exp=now + 3_600), role="reader"),
        "an admin of the tenant": Principal(of("owner"), role="owner"),
        "a superuser": Principal(of("admin"), role="admin"),
        "a proxy for a reader": Principal(of("gateway"), "reader", role="reader"),
        "a proxy for a role of another tenant": Principal(of("gateway"), "stranger", role="stranger"),
        "a proxy for an admin of the tenant": Principal(of("gateway"), "owner", role="owner"),
        "a proxy for a superuser": Principal(of("gateway"), "admin", role="owner"),  # no more than the proxy itself may
        "a proxy for itself": Principal(of("gateway"), "gateway", refusal=denied),
        "a proxy for nobody": Principal(of("gateway"), refusal=denied),
        "a superuser who is no proxy": Principal(of("admin"), "reader", refusal="NOT_A_PROXY"),
    }


@asynccontextmanager
async def serving(directory: Path, transport: str) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a server whose key was replaced since it began. Over mutual TLS it is that of the reader."""
    key, roles = directory / "secret.key", directory / "roles.toml"
    key.write_bytes(REVOKED)
    roles.write_text(ROLES)
    authority = Authority(directory, "authority")
    own, mutual = authority.identity("server", "127.0.0.1"), transport == MUTUAL
    tls = TlsConfig(certificate_file=own.certificate, key_file=own.key, client_ca_file=authority.certificate if mutual else None)
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None),
        listen=parse_address("127.0.0.1:0"),
        history=HistoryConfig(path=directory / "history.db"),
        tls=None if transport == PLAINTEXT else tls,
        authentication=AuthenticationConfig(
            token=TokenConfig(secret_key_file=key, audience_claim="aud", audience=AUDIENCE),
            certificate="cn" if mutual else "",
            proxy_roles=("gateway",),
        ),
        authorization=AuthorizationConfig(file=roles),
    )
    mine = authority.identity("reader") if mutual else None
    pair = (None, None) if mine is None else (mine.key.read_bytes(), mine.certificate.read_bytes())
    credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes(), *pair)
    async with Server(config) as server:
        plain = transport == PLAINTEXT
        async with grpc.aio.insecure_channel(server.address) if plain else grpc.aio.secure_channel(server.address, credentials) as channel:
            replace(key, SECRET)
            server.rereading.ask()
            everything, superuser = CALLS["GetServerInfo"][0], Principal(of("admin")).metadata
            async with asyncio.timeout(PATIENCE):
                while await refusal_of(everything, channel, "", lambda _: superuser) is not None:
                    pass  # the other key is not in force yet
            yield channel


def test_every_method_of_every_service_is_in_the_matrix() -> None:
    ours = {each.name for each in service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"].methods}
    assert {name.replace(",", "").split()[0] for name in CALLS} == ours | {"Health/Check", "ServerReflection"}
    health = health_pb2.DESCRIPTOR.services_by_name["Health"]
    assert {each.name for each in health.methods} == {"Check", "List", "Watch"}, "which are tried elsewhere"
    assert reflect is CALLS["ServerReflection"][0]
    assert [each.name for each in reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"].methods] == ["ServerReflectionInfo"]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_every_call_by_everybody_over_every_transport(tmp_path: Path, transport: str) -> None:
    everybody = principals()
    if transport == MUTUAL:  # who shows no token is whom his certificate names; one that does not hold is refused all the same
        everybody["no credentials"] = Principal(role="reader")
    wrong = []
    async with serving(tmp_path, transport) as channel:
        for name, (make, permission, may) in CALLS.items():
            for who, principal in everybody.items():
                told = await refusal_of(make, channel, who, lambda _, given=principal: given.metadata)  # type: ignore[misc]
                found = (told.reason, told.metadata.get("namespace", "")) if told is not None else None
                wanted: tuple[str, str] | None = None
                if principal.refusal and not (name in OPEN and not principal.metadata):
                    wanted = principal.refusal, ""
                elif permission and principal.role not in may:
                    wanted = "PERMISSION_DENIED", NAMESPACE
                if found != wanted:
                    wrong.append((name, who, found, wanted))
        stub = async_stub(channel)
        admin = Principal(of("admin")).metadata
        page = await stub.ListHistory(service_pb2.ListHistoryRequest(namespace=NAMESPACE), metadata=admin)
        made = [each.origin for each in page.entries if each.outcome == service_pb2.HISTORY_OUTCOME_APPLIED]
    assert not wrong
    assert made and {each.principal for each in made} <= {"owner", "admin", "gateway"}, "nobody else has changed anything"
