"""The matrix of permissions with an embedded log and a file of roles: every call, by every kind of principal, over every transport.

``test_permissions_on_broker`` does the same with a broker, and compares with what the broker permits.
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
from tests.client.certificates import Authority, Identity
from tests.rpc.callers import ROLES, Metadata
from tests.rpc.test_permissions import CALLS, NAMESPACE, OPEN, reflect, refusal_of
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
"""The key that is in force when the server starts, and then replaced."""
PLAINTEXT, TLS, MUTUAL = TRANSPORTS = ("plaintext", "TLS", "mutual TLS")


class Principal(NamedTuple):
    """A caller: its credentials, and how the server is to treat it."""

    shown: str = ""
    """The token; "": none is sent."""
    original: str = ""
    """The original principal that the call names; "": none."""
    role: str = ""
    """The role whose permissions count, if the caller is authenticated."""
    refusal: str = ""
    """The reason of the refusal; "": the caller is authenticated."""
    certificate: str = "reader"
    """The name in the client certificate, over mutual TLS; each name has a connection of its own."""

    @property
    def metadata(self) -> Metadata:
        """The metadata of the caller's calls."""
        found: Metadata = (("authorization", f"Bearer {self.shown}"),) if self.shown else ()
        return (*found, (ORIGINAL_KEY, self.original)) if self.original else found


def of(role: str, **claims: object) -> str:
    """Returns a token that is valid, unless its claims prevent that."""
    return token(**{"sub": role, "aud": AUDIENCE, **claims})  # type: ignore[arg-type]


def principals() -> dict[str, Principal]:
    """Returns the callers by a description. Tokens that are not valid name a superuser."""
    now = time.time()
    claims: dict[str, Any] = {"sub": "admin", "aud": AUDIENCE}
    bad, denied = "CREDENTIALS_INVALID", "ORIGINAL_PRINCIPAL_INVALID"
    return {
        "no credentials": Principal(refusal="CREDENTIALS_MISSING"),
        "a forged token": Principal(token(bytes(48), **claims), refusal=bad),
        "an unsigned token": Principal(unsigned({"alg": "none"}, claims), refusal=bad),
        "a token of another algorithm": Principal(signed({"alg": "RS256"}, claims), refusal=bad),
        "an expired token": Principal(of("admin", exp=now - 1), refusal="CREDENTIALS_EXPIRED"),
        "a token of tomorrow": Principal(of("admin", nbf=now + 86_400), refusal=bad),
        "a token for another audience": Principal(of("admin", aud="another"), refusal=bad),
        "a token of a key that was replaced": Principal(token(REVOKED, **claims), refusal=bad),
        "a role of another tenant": Principal(of("stranger"), role="stranger"),
        "an unknown role": Principal(of("unheard-of"), role="unheard-of"),
        "a reader": Principal(of("reader", exp=now + 3_600), role="reader"),
        "an admin of the tenant": Principal(of("owner"), role="owner"),
        "a superuser": Principal(of("admin"), role="admin"),
        "a proxy for a reader": Principal(of("gateway"), "reader", role="reader"),
        "a proxy for a role of another tenant": Principal(of("gateway"), "stranger", role="stranger"),
        "a proxy for an admin of the tenant": Principal(of("gateway"), "owner", role="owner"),
        "a proxy for a superuser": Principal(of("gateway"), "admin", role="owner"),  # the permissions of the proxy itself are the limit
        "a proxy for itself": Principal(of("gateway"), "gateway", refusal=denied),
        "a proxy without an original principal": Principal(of("gateway"), refusal=denied),
        "a superuser who is no proxy": Principal(of("admin"), "reader", refusal="NOT_A_PROXY"),
    }


def by_certificate() -> dict[str, Principal]:
    """Returns callers with only a certificate, and callers whose token takes precedence over it."""
    denied = "ORIGINAL_PRINCIPAL_INVALID"
    return {
        "no credentials but the certificate of a reader": Principal(role="reader"),
        "the certificate of a role of another tenant": Principal(role="stranger", certificate="stranger"),
        "the certificate of an unknown role": Principal(role="unheard-of", certificate="unheard-of"),
        "the certificate of an admin of the tenant": Principal(role="owner", certificate="owner"),
        "the certificate of a superuser": Principal(role="admin", certificate="admin"),
        "the certificate of a proxy for a reader": Principal("", "reader", role="reader", certificate="gateway"),
        "the certificate of a proxy for a role of another tenant": Principal("", "stranger", role="stranger", certificate="gateway"),
        "the certificate of a proxy for an admin of the tenant": Principal("", "owner", role="owner", certificate="gateway"),
        "the certificate of a proxy for a superuser": Principal("", "admin", role="owner", certificate="gateway"),
        "the certificate of a proxy for itself": Principal("", "gateway", refusal=denied, certificate="gateway"),
        "the certificate of a proxy without an original principal": Principal(refusal=denied, certificate="gateway"),
        "the certificate of a superuser who is no proxy": Principal("", "reader", refusal="NOT_A_PROXY", certificate="admin"),
        "a reader with the certificate of a superuser": Principal(of("reader"), role="reader", certificate="admin"),
        "a forged token with the certificate of a superuser": Principal(
            token(bytes(48), sub="admin", aud=AUDIENCE), refusal="CREDENTIALS_INVALID", certificate="admin"
        ),
    }


class Connections:
    """Channels to one server: one for each certificate, or a single one where no certificate is needed."""

    def __init__(self, address: str, transport: str, authority: Authority) -> None:
        self._address, self._transport, self._authority = address, transport, authority
        self._channels: dict[str, grpc.aio.Channel] = {}

    def of(self, certificate: str) -> grpc.aio.Channel:
        """Returns the channel for a certificate with this name."""
        name = certificate if self._transport == MUTUAL else ""
        if name not in self._channels:
            self._channels[name] = self.made(self._authority.identity(name) if name else None)
        return self._channels[name]

    def made(self, identity: Identity | None) -> grpc.aio.Channel:
        """Opens a channel that shows this certificate; None: none."""
        if self._transport == PLAINTEXT:
            return grpc.aio.insecure_channel(self._address)
        pair = (None, None) if identity is None else (identity.key.read_bytes(), identity.certificate.read_bytes())
        credentials = grpc.ssl_channel_credentials(self._authority.certificate.read_bytes(), *pair)
        return grpc.aio.secure_channel(self._address, credentials, options=[("grpc.use_local_subchannel_pool", 1)])

    async def close(self) -> None:
        """Closes all channels."""
        await asyncio.gather(*(each.close() for each in self._channels.values()))


@asynccontextmanager
async def serving(directory: Path, transport: str) -> AsyncIterator[Connections]:
    """Runs a server whose key is replaced after the start, and yields connections to it."""
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
    async with Server(config) as server:
        connections = Connections(server.address, transport, authority)
        replace(key, SECRET)
        server.reloader.reload_now()
        everything, superuser = CALLS["GetServerInfo"][0], Principal(of("admin")).metadata
        async with asyncio.timeout(PATIENCE):
            while await refusal_of(everything, connections.of("reader"), "", lambda _: superuser) is not None:
                pass  # the new key is not in force yet
        try:
            yield connections
        finally:
            await connections.close()


def test_every_method_of_every_service_is_in_the_matrix() -> None:
    ours = {each.name for each in service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"].methods}
    health = {f"Health/{each.name}" for each in health_pb2.DESCRIPTOR.services_by_name["Health"].methods}
    assert {name.replace(",", "").split()[0] for name in CALLS} == ours | health | {"ServerReflection"}
    assert health == OPEN
    assert reflect is CALLS["ServerReflection"][0]
    assert [each.name for each in reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"].methods] == ["ServerReflectionInfo"]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_every_call_is_permitted_or_refused_as_the_caller_and_the_transport_require(tmp_path: Path, transport: str) -> None:
    everybody = principals()
    if transport == MUTUAL:  # without a token the certificate identifies the caller; an invalid token is refused all the same
        del everybody["no credentials"]
        everybody |= by_certificate()
    wrong = []
    async with serving(tmp_path, transport) as connections:
        for name, (make, permission, may) in CALLS.items():
            for who, principal in everybody.items():
                channel = connections.of(principal.certificate)
                refusal = await refusal_of(make, channel, who, lambda _, given=principal: given.metadata)  # type: ignore[misc]
                found = (refusal.reason, refusal.metadata.get("namespace", "")) if refusal is not None else None
                wanted: tuple[str, str] | None = None
                nothing = not principal.metadata and transport != MUTUAL
                if principal.refusal and not (name in OPEN and nothing):
                    wanted = (principal.refusal, "")
                elif permission and principal.role not in may:
                    wanted = ("PERMISSION_DENIED", NAMESPACE)
                if found != wanted:
                    wrong.append((name, who, found, wanted))
        stub = async_stub(connections.of("admin"))
        admin = Principal(of("admin")).metadata
        page = await stub.ListHistory(service_pb2.ListHistoryRequest(namespace=NAMESPACE), metadata=admin)
        made = [each.origin for each in page.entries if each.outcome == service_pb2.HISTORY_OUTCOME_APPLIED]
    assert not wrong
    assert made and {each.principal for each in made} <= {"owner", "admin", "gateway"}, (
        "a principal without the permission has changed something"
    )


async def test_with_mutual_tls_a_call_without_a_trusted_certificate_gets_no_connection_whatever_its_token(tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.mkdir()
    superuser = Principal(of("admin")).metadata
    async with serving(tmp_path, MUTUAL) as connections:
        for identity in (None, Authority(others, "authority").identity("admin")):
            async with connections.made(identity) as channel:
                for name, (make, *_) in CALLS.items():
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await make(channel, superuser)
                    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE, name
